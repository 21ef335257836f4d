"""Two workspaces that come from one snapshot, beside each other: what each of them changed since then."""

from dataclasses import dataclass, field
from urllib.parse import quote_from_bytes, urlencode

from django.http import Http404
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_safe

from dashboard.problems import Problem
from dashboard.web.pages import signed_in
from workspaces.changes import forks, history
from workspaces.changes.comparisons import Lines, Point, find_point, lines_of
from workspaces.changes.diff import FileDiff
from workspaces.changes.forks import ALIKE, DIFFERENT, LEFT, RIGHT
from workspaces.changes.highlight import deadline
from workspaces.models import Workspace
from workspaces.pages.diff_sections import diff_of
from workspaces.pages.header import load_header
from workspaces.pages.points import parse_point

MOST_FILES = 300  # listed of each kind; the changes of one side have the others
MOST_DIFFS = 20  # files that both changed differently, whose lines are on the page
DIFF_LINES = 80  # of one side of such a file


@dataclass
class Side:
    """One of the two workspaces on the page; the address of its own changes is without a path if none is given."""

    point: Point
    base: Point
    name: str  # the parameter of the address that says at which point it is
    changed: list[history.FileChange] = field(default_factory=list)

    @property
    def workspace(self) -> Workspace:
        return self.point.workspace

    @property
    def changes_url(self) -> str:
        """The address of the ordinary page of what this side changed; "" if the common snapshot's workspace is gone."""
        if self.base.workspace.trashed_at or self.workspace.trashed_at:
            return ""
        here = reverse("workspace-changes", args=[self.workspace.team.slug, self.workspace.key])
        return f"{here}?{urlencode({'from': _named(self.base, self.workspace), 'to': self.point.at})}"

    @property
    def lines(self) -> Lines:
        return lines_of(self.changed)


@dataclass
class Cell:
    """One side's change of one file: its row, the address of its diff, and its lines if they are on the page."""

    row: history.FileChange
    url: str
    diff: FileDiff | None = None

    @property
    def old_path(self) -> str:
        return self.row.old_path.decode("utf-8", "surrogateescape") if self.row.old_path else ""


@dataclass
class Shown:
    """A file of the page, with a cell for each side that changed it."""

    path: str
    conflict: bool
    cells: list[Cell]


@signed_in
@require_safe
def two(request, team, key):
    """Show a workspace beside the one that `with` names, or beside the nearest of its parent and forks."""
    head = load_header(request, team, key, "workspace-changes")
    family = forks.relatives(head.workspace, request.caller)
    chosen = request.GET.get("with") or (family[0].key if family else "")
    context = {"nav": "workspaces", "head": head, "chosen": chosen, "family": family}
    context |= {name: _at(request, name, head.workspace) for name in ("at", "with_at")}
    if chosen and "X-Handrail-Refresh" not in request.headers:  # which takes the header only
        try:
            context |= _compared_files(request, head.workspace, context)
        except Problem as problem:
            if problem.status == 404:
                raise Http404(problem.detail) from None
            context["refused"] = problem.detail
    return render(request, "workspaces/side_by_side.html", context)


def _at(request, name: str, workspace: Workspace) -> str:
    """Return a point of the address; without one it is now, or the newest snapshot of a workspace in the trash."""
    is_gone = name == "at" and workspace.trashed_at and workspace.head
    return str(parse_point(request.GET.get(name, ""), workspace.head.number if is_gone else history.LIVE))


def _compared_files(request, workspace: Workspace, context: dict) -> dict:
    """Return both sides and the files of the page. Raises Problem if a point, or a common snapshot, is not there."""
    left = Point(workspace, history.LIVE if context["at"] == history.LIVE else int(context["at"]))
    right = find_point(f"{context['chosen']}:{context['with_at']}", workspace, request.caller)
    with_ignored = request.GET.get("ignored") == "1"
    found = forks.compare_forks(left, right, with_ignored=with_ignored)
    sides = [Side(point, found.base, name) for point, name in ((left, "at"), (right, "with_at"))]
    for side, rows in zip(sides, found.rows, strict=True):
        side.changed = rows
    kinds = {state: [file for file in found.files if file.state == state] for state in (DIFFERENT, LEFT, RIGHT, ALIKE)}
    kinds[DIFFERENT].sort(key=lambda file: not file.conflict)
    found.count([row for files in kinds.values() for file in files for row in (file.left, file.right) if row])
    shown = {state: [_shown(file, sides) for file in files[:MOST_FILES]] for state, files in kinds.items()}
    _fill(found, kinds[DIFFERENT], shown[DIFFERENT])
    query = {"with": right.workspace.key, "at": context["at"], "with_at": context["with_at"]}
    return {
        "base": found.base,
        "sides": sides,
        "counts": (counts := found.counts()) | {"mergeable": counts["different"] - counts["conflicts"]},
        "different": shown[DIFFERENT],
        "alike": shown[ALIKE],
        "alone": list(zip(sides, (shown[LEFT], shown[RIGHT]), (len(kinds[LEFT]), len(kinds[RIGHT])), strict=True)),
        "most": MOST_FILES,
        "with_ignored": with_ignored,
        "left_out_count": found.left_out_count,
        "other_way": urlencode(query | ({} if with_ignored else {"ignored": "1"})),
        "pair_url": _pair_url(left, right),
    }


def _shown(file: forks.File, sides: list[Side]) -> Shown:
    """Return a file with a cell for each side that changed it."""
    rows = zip(sides, (file.left, file.right), strict=True)
    cells = [Cell(row, _url_of(side, row)) for side, row in rows if row is not None]
    return Shown(file.path.decode("utf-8", "surrogateescape"), file.conflict, cells)


def _url_of(side: Side, row: history.FileChange) -> str:
    return f"{side.changes_url}&path={quote_from_bytes(row.path)}" if side.changes_url else ""


def _fill(found: forks.ForkComparison, files: list[forks.File], shown: list[Shown]):
    """Put the lines of both sides on the page, for the first of the files that both changed differently."""
    until = deadline()
    for file, on_page in zip(files[:MOST_DIFFS], shown, strict=False):
        for row, cell in zip((file.left, file.right), on_page.cells, strict=True):
            ((_, old, new),) = history.contents(found.left.workspace, [row])
            cell.diff = diff_of(row, old, new, until=until, shown=slice(DIFF_LINES))


def _pair_url(left: Point, right: Point) -> str:
    """Return the address of the ordinary page that compares the two sides themselves; "" if one is in the trash."""
    if left.workspace.trashed_at:
        return ""
    here = reverse("workspace-changes", args=[left.workspace.team.slug, left.workspace.key])
    return f"{here}?{urlencode({'from': left.at, 'to': _named(right, left.workspace)})}"


def _named(point: Point, seen_from: Workspace) -> str:
    """Return the name of a point on the pages of a workspace: "3", or "fork:3" for another one's."""
    return str(point.at) if point.workspace == seen_from else f"{point.workspace.key}:{point.at}"
