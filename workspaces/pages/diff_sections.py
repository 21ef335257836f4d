"""The diffs of a page: one section for each changed file, shown, folded because it was seen, or loaded later."""

import hashlib
from dataclasses import dataclass, field
from urllib.parse import quote_from_bytes, urlencode

from django.core import signing
from django.template.defaultfilters import filesizeformat
from django.urls import reverse
from django.utils.translation import gettext, gettext_lazy

from workspaces import extensions
from workspaces.changes import history
from workspaces.changes.changed_tree import GoneFolder
from workspaces.changes.comparisons import Comparison, digest_of
from workspaces.changes.diff import SHOWN_LINES, FileDiff, compare, raw_hunks
from workspaces.changes.diff.marks import words_of
from workspaces.changes.diff.readable import NOTEBOOK, UTF_16, readable
from workspaces.changes.diff.tables import delimiter_of, rows_of
from workspaces.changes.highlight import deadline
from workspaces.models import Workspace
from workspaces.pages import images
from workspaces.services import revert
from workspaces.store.objects import FILE, FOLDER, SYMLINK
from workspaces.store.text import MAX_BYTES, text_diff

FIRST_LINES = 400  # of a file, before the link to the rest
MORE_LINES = 1000  # that the link loads
EAGER_LINES = 400  # on one page that are not loaded later
EAGER_FILES = 6
TREES = "workspaces.trees"  # salt of the signed ids of what a page compares
TREES_SECONDS = 24 * 3600
SHOWN, LATER, SEEN = "shown", "later", "seen"
HOW = {
    NOTEBOOK: gettext_lazy("The notebook's cells as text."),
    UTF_16: gettext_lazy("UTF-16, shown as UTF-8."),
}


@dataclass(frozen=True)
class View:
    """How a page shows a comparison; `query` names it in an address."""

    workspace: Workspace  # whose page it is
    comparison: Comparison
    points: dict  # from, to: as the address has them
    ignore_space: bool = False
    with_ignored: bool = False
    as_is: bool = False
    split: bool = False
    line: int = 0  # of the diff, from which on a file is shown
    count: int = FIRST_LINES  # of its lines that are shown
    raw: str = ""  # the address of a file's bytes, without its path
    may_restore: bool = False
    may_restore_parts: bool = False
    caller: object = None  # who looks at it
    loaded: dict = field(default_factory=dict, compare=False)  # what extensions keep between its files

    def query(self, **more) -> str:
        switches = {"w": self.ignore_space, "ignored": self.with_ignored}
        named = self.points | {name: "1" for name, on in switches.items() if on} | more
        return urlencode({name: value for name, value in named.items() if value})


@dataclass
class Section:
    """A changed file on the page. `state`: shown, later or seen; `diff` only if it is shown."""

    row: history.FileChange
    view: View
    state: str
    diff: FileDiff | None = None

    def __post_init__(self):
        self.path = shown_path(self.row)
        self.old_path = self.row.old_path.decode("utf-8", "surrogateescape") if self.row.old_path else ""
        self.anchor = anchor_of(self.row.path)
        self.digest = digest_of(self.row)

    @property
    def kind(self) -> str:
        return self.row.kind

    @property
    def marks(self) -> list[str]:
        return words_of(self.row.facts)

    @property
    def blame_query(self) -> str:
        """The query string of the page that says who wrote its lines; "" if it has none in this workspace."""
        at = str(self.view.points["to"])
        if self.kind == "removed" or self.row.binary or not (at == history.LIVE or at.isdecimal()):
            return ""
        return f"at={at}&path={quote_from_bytes(self.row.path)}"

    @property
    def split(self) -> bool:
        """Whether it is shown side by side: only where both sides have the file."""
        return self.view.split and None not in (self.row.change.old, self.row.change.new)

    @property
    def is_seen(self) -> bool:
        return self.state == SEEN

    @property
    def query(self) -> str:
        """The query of the address that shows only this file."""
        old = f"&old={quote_from_bytes(self.row.old_path)}" if self.row.old_path else ""
        return f"{self.view.query()}&path={quote_from_bytes(self.row.path)}{old}"

    @property
    def old_image(self) -> str:
        return self._image("old", 0)

    @property
    def new_image(self) -> str:
        return self._image("new", 1)

    def _image(self, side: str, index: int) -> str:
        """Return the address of one side as an image; "" if it is none that is shown."""
        if not self.diff or not self.diff.images[index]:
            return ""
        workspace, trees = self.view.workspace, signed(self.view.comparison)
        here = reverse("changed-image", args=[workspace.team.slug, workspace.key])
        return f"{here}?{self.query}&side={side}&trees={trees}"

    @property
    def trees(self) -> str:
        """The signed ids of what is compared, for a form about its lines."""
        return signed(self.view.comparison)

    @property
    def next_line(self) -> int:
        """The line from which on the rest of the diff is shown; 0 if there is none."""
        return self.view.line + self.view.count if self.diff and self.diff.cut else 0

    @property
    def next_count(self) -> int:
        return min(self.diff.cut, MORE_LINES)


def signed(comparison: Comparison) -> str:
    """Return the ids of both trees for an address, so that what is loaded later is of the same moment."""
    return signing.dumps([str(comparison.new.workspace.team_id), *comparison.trees], salt=TREES)


def signed_trees(text: str, workspace: Workspace) -> tuple[str, str] | None:
    """Return the trees that `signed` named; None for anything else, and for another team's."""
    try:
        team, old, new = signing.loads(text, salt=TREES, max_age=TREES_SECONDS)
    except signing.BadSignature:
        return None
    return (old, new) if team == str(workspace.team_id) else None


def anchor_of(path: bytes) -> str:
    return f"f-{hashlib.sha256(path).hexdigest()[:32]}"


def shown_path(row) -> str:
    return row.path.decode("utf-8", "surrogateescape")


@dataclass
class GoneSection:
    """A folder that is gone, as one row of the page."""

    folder: GoneFolder
    view: View
    is_seen: bool

    @property
    def path(self) -> str:
        return shown_path(self.folder) + "/"

    @property
    def anchor(self) -> str:
        return anchor_of(self.folder.path)

    @property
    def query(self) -> str:
        """The query of the page with only its files."""
        return f"{self.view.query()}&under={quote_from_bytes(self.folder.path)}"


def sections_of(view: View, items, seen: frozenset[str]) -> list:
    """Return a Section for each change and a GoneSection for each folder; only the first diffs are made now."""
    until, lines = deadline(), EAGER_LINES
    sections = [
        GoneSection(item, view, item.is_seen(seen))
        if isinstance(item, GoneFolder)
        else Section(item, view, SEEN if digest_of(item) in seen else LATER)
        for item in items
    ]
    waiting = [found for found in sections if isinstance(found, Section) and found.state == LATER]
    for section in waiting[:EAGER_FILES]:
        if lines <= 0:
            break
        fill(section, until)
        lines -= sum(len(hunk.lines) for hunk in section.diff.hunks)
    return sections


def fill(section: Section, until: float | None = None) -> Section:
    """Make the section's diff."""
    view, row = section.view, section.row
    [(row, old, new)] = history.contents(view.comparison.new.workspace, [row])
    shown = slice(view.line, view.line + view.count)
    section.diff = diff_of(row, old, new, until=until or deadline(), view=view, shown=shown)
    section.state = SHOWN
    if view.caller:
        extensions.ports.place_comments(section, view.caller)
    return section


def diff_of(change, old, new, *, until: float, view: View | None = None, shown: slice = slice(SHOWN_LINES)) -> FileDiff:
    """Return the diff to show. Without a `view`, the bytes as they are and no buttons."""
    path, how = shown_path(change), ""
    sides = (old, new)
    if view and not view.as_is:
        old, new, how = readable(path, old, new)
    diff = compare(path, old, new, until=until, ignore_space=bool(view and view.ignore_space), shown=shown)
    diff.how = HOW.get(how, "")
    if view and not view.as_is and not how:
        _as_table(diff, old, new, view, shown)
    diff.kind, diff.binary = change.kind, diff.binary or (change.binary and not how)
    diff.is_link = any(side is not None and side.kind == SYMLINK for side in (change.change.old, change.change.new))
    diff.marks = words_of(change.facts)
    if change.old_path:
        diff.old_path = change.old_path.decode("utf-8", "surrogateescape")
    if view:
        _offer_restore(diff, change, sides[1], view)
        diff.images = [bool(side and images.type_of(side)) for side in sides]
    _note(diff, change, view.raw if view else "")
    return diff


def _as_table(diff: FileDiff, old: bytes | None, new: bytes | None, view: View, shown: slice):
    delimiter = delimiter_of(diff.path, new or old or b"")
    if not delimiter or not diff.hunks or not all(delimiter_of(diff.path, side) for side in (old, new) if side):
        return
    found = raw_hunks(text_diff(old or b"", new or b"", ignore_space=view.ignore_space))
    at, diff.table = 0, []
    for heading, lines in found:
        inside = lines[max(0, (shown.start or 0) - at) : max(0, shown.stop - at)]
        at += len(lines)
        if inside:
            diff.table.append((heading if diff.kind == "modified" else "", rows_of(inside, delimiter)))


def _offer_restore(diff: FileDiff, change, new: bytes | None, view: View):
    """Offer the file as it is at either point, but for the live one, and single hunks as they are at the first."""
    if not view.may_restore:
        return
    missing = {"from": ("added", "type"), "to": ("removed", "type")}  # kinds whose file is not at that point
    places = zip(("from", "to"), view.comparison.restorable(change), strict=True)
    points = [(name, view.points[name]) for name, can in places if can and view.points[name] != history.LIVE]
    diff.restore_from = [(at, "" if ":" in at else at, change.kind in missing[name]) for name, at in points]
    is_from_here = view.points["from"] == history.LIVE
    can_part = view.may_restore_parts and not is_from_here and not diff.how and not view.ignore_space
    is_text = all(side is not None and side.kind == FILE for side in (change.change.old, change.change.new))
    if can_part and is_text and change.kind == "modified" and new is not None and diff.hunks:
        diff.from_, diff.seen = view.points["from"], revert.digest_of(new)


def _note(diff: FileDiff, change, raw: str):
    sides = [side for side in (change.change.old, change.change.new) if side is not None]
    if change.too_large:
        diff.note = _why_too_large(max(side.size for side in sides))
        diff.download = raw + quote_from_bytes(change.path) if raw and change.change.new else ""
    elif diff.binary:
        diff.sizes = " → ".join(filesizeformat(side.size) for side in sides)
    elif not diff.hunks and not diff.note:
        diff.note = _without_lines(change, sides)


def _why_too_large(size: int) -> str:
    if size > MAX_BYTES:
        shown = {"size": filesizeformat(size), "limit": filesizeformat(MAX_BYTES)}
        return gettext("Too large to show (%(size)s): up to %(limit)s is compared. The patch has it.") % shown
    return gettext("Too many lines changed to compare them here. The patch has the file.")


def _without_lines(change, sides) -> str:
    """Return the words for a change that has no line."""
    if change.old_mode != change.new_mode and len(sides) == 2 and sides[0].kind == sides[1].kind:
        modes = {"old": f"{change.old_mode:o}", "new": f"{change.new_mode:o}"}
        return gettext("Only its mode changed: %(old)s is %(new)s now.") % modes
    if change.kind in ("renamed", "mode"):
        return gettext("No line changed.")
    if any(side.kind in (FILE, FOLDER) and not side.kept for side in sides):
        return gettext("Its content is not in the snapshot, so what changed inside is not known.")
    if all(side.kind == FILE for side in sides):
        return gettext("The file is empty.") if len(sides) == 1 else gettext("No line changed.")
    return gettext("It has no lines.")
