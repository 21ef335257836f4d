"""Diffs as lines to display: with syntax colours, and hidden characters shown as marks."""

from dataclasses import dataclass, field, replace
from itertools import zip_longest

from django.utils.safestring import SafeString

from workspaces.changes.diff.moved import moved
from workspaces.changes.highlight import coloured_sides, deadline
from workspaces.store.text import is_binary, text_diff

SHOWN_LINES = 2000  # per file; the patch has the rest


@dataclass(frozen=True)
class Line:
    """`kind`: same, added, removed; `old` and `new` are line numbers from 1, or None.

    `moved`: the number of the same line on the other side, if it is in a block that was moved. `is_open`: it is the
    last one of a text that does not end with a newline.
    """

    kind: str
    old: int | None
    new: int | None
    html: SafeString
    moved: int | None = None
    is_open: bool = False


@dataclass(frozen=True)
class Hunk:
    """`index` counts all hunks of the file from 0; `whole`: none of its lines is left out."""

    heading: str
    lines: list[Line]
    index: int = 0
    whole: bool = True
    said: dict = field(default_factory=dict)  # {(side, line number): HTML that is shown below that line}

    @property
    def rows(self) -> list[tuple[Line | None, Line | None]]:
        """Pairs of (left, right) lines for the side-by-side view: removed lines beside those that replace them."""
        rows, gone, come = [], [], []
        for line in [*self.lines, None]:
            if line is not None and line.kind != "same":
                (gone if line.kind == "removed" else come).append(line)
                continue
            rows += zip_longest(gone, come)
            gone, come = [], []
            if line is not None:
                rows.append((line, line))
        return rows


@dataclass
class FileDiff:
    """The diff of one file between two points. `kind`: added, modified, deleted, renamed, mode."""

    path: str
    kind: str
    hunks: list[Hunk] = field(default_factory=list)
    additions: int = 0
    deletions: int = 0
    binary: bool = False
    cut: int = 0  # number of lines not shown, after those that are
    note: str = ""
    download: str = ""  # URL of the file's bytes when they are not shown
    is_link: bool = False
    marks: list[str] = field(default_factory=list)  # what changed besides its lines, for people
    old_path: str = ""
    how: str = ""  # how the bytes were made readable, if they were
    table: list | None = None  # [(heading, rows)] of a CSV file: workspaces.changes.diff.tables
    images: list[bool] = field(default_factory=list)  # whether the old and the new side are shown as images
    sizes: str = ""  # of both sides of a binary file
    restore_from: list = field(default_factory=list)  # (point, its number if it is of this workspace, if it removes)
    from_: str = ""  # the point that one hunk of it can be reverted to
    seen: str = ""  # digest of the content that was shown, when hunks can be reverted
    takes_comments: bool = False  # whether the viewer may comment on its lines
    comments: list = field(default_factory=list)  # (comment, why it is not beside a line, its lines' numbers)

    @property
    def digits(self) -> int:
        """How many digits its longest line number has, for the width of their columns."""
        lines = self.hunks[-1].lines if self.hunks else []
        return len(str(max((number for line in lines for number in (line.old, line.new) if number), default=0)))


TOO_LARGE = "Too many lines changed to compare them here."


def raw_hunks(diff):
    """Convert a diff of the store to [(heading, [(sign, old line number, new line number, text)])]."""
    return [
        (
            hunk.header.strip(),
            [
                (line.origin, line.old_number, line.new_number, line.content.decode("utf-8", "surrogateescape"))
                for line in hunk.lines
            ],
        )
        for hunk in diff.hunks
    ]


def compare(
    path: str,
    old: bytes | None,
    new: bytes | None,
    *,
    until: float | None = None,
    ignore_space: bool = False,
    shown: slice = slice(SHOWN_LINES),
) -> FileDiff:
    """Return the diff that turns `old` into `new`; None means that there is no file. `until`: see `coloured_lines`.

    `shown`: which of its lines are shown, counted from 0.
    """
    kind = "added" if old is None else "deleted" if new is None else "modified"
    diff = FileDiff(path, kind)
    old, new = old or b"", new or b""
    if bool(old) != bool(new) and not is_binary(old + new):
        return _one_sided(diff, old or new, "+" if new else "-", shown, until)
    found = text_diff(old, new, max_bytes=max(len(old), len(new)), ignore_space=ignore_space)
    diff.binary, diff.note = found.binary, TOO_LARGE if found.too_large else ""
    return dress(diff, raw_hunks(found), shown=shown, until=until)


def _one_sided(diff: FileDiff, text: bytes, sign: str, shown: slice, until: float | None) -> FileDiff:
    """Fill the diff of a text that has no other side, however long it is: only the lines that are shown are read."""
    lines = text.split(b"\n")
    if not lines[-1]:
        lines.pop()
    diff.additions, diff.deletions = (len(lines), 0) if sign == "+" else (0, len(lines))
    first, inside = shown.start or 0, lines[shown]
    told = [
        (sign, None if sign == "+" else number, number if sign == "+" else None, _as_text(line) + "\n")
        for number, line in enumerate(inside, first + 1)
    ]
    if told and first + len(told) == len(lines) and not text.endswith(b"\n"):
        told[-1] = (*told[-1][:3], _as_text(inside[-1]))
    diff.cut = max(0, len(lines) - shown.stop)
    if told:
        dressed = _coloured(diff.path, told, {}, until or deadline())
        # A whole file that comes or goes is one hunk, so its heading says nothing.
        diff.hunks.append(Hunk("", dressed, 0, whole=len(told) == len(lines)))
    return diff


def _as_text(line: bytes) -> str:
    return line.decode("utf-8", "surrogateescape")


def split(diff: FileDiff, most: int) -> tuple[FileDiff, FileDiff]:
    """Split a diff into its first `most` lines and the rest."""
    head, rest = replace(diff, hunks=[], cut=0, comments=[]), replace(diff, hunks=[], note="", comments=[])
    for hunk in diff.hunks:
        room = most - sum(len(shown.lines) for shown in head.hunks)
        if room > 0:
            head.hunks.append(replace(hunk, lines=hunk.lines[:room]))
        if left := hunk.lines[max(0, room) :]:
            rest.hunks.append(replace(hunk, heading="" if room > 0 else hunk.heading, lines=left))
    return head, rest


KINDS = {" ": "same", "+": "added", "-": "removed"}


def dress(diff: FileDiff, hunks, *, shown: slice = slice(SHOWN_LINES), until: float | None = None) -> FileDiff:
    """Fill `diff` from raw hunks with counts, and with those of their lines that are `shown`, coloured."""
    at, until = 0, until or deadline()
    first, last = shown.start or 0, shown.stop
    places = moved([line for _, lines in hunks for line in lines])
    for index, (heading, lines) in enumerate(hunks):
        diff.additions += sum(1 for line in lines if line[0] == "+")
        diff.deletions += sum(1 for line in lines if line[0] == "-")
        inside = lines[max(0, first - at) : max(0, last - at)]
        diff.cut += max(0, at + len(lines) - max(last, at))
        if inside:
            # An added or deleted file is one hunk, so its heading says nothing.
            heading = heading if diff.kind == "modified" else ""
            whole = len(inside) == len(lines)
            diff.hunks.append(Hunk(heading, _coloured(diff.path, inside, places, until), index, whole))
        at += len(lines)
    return diff


def _coloured(path: str, lines, places: dict, until: float) -> list[Line]:
    # Each side is coloured as a text of its own, so that a quote in a removed line does not affect added lines.
    texts = ["".join(text for sign, _, _, text in lines if sign in side) for side in (" -", " +")]
    old_lines, new_lines = map(iter, coloured_sides(*texts, _pairs(lines), path, until=until))
    dressed = []
    for sign, old, new, text in lines:
        if sign == " ":
            html = next(new_lines)
            next(old_lines)
        else:
            html = next(old_lines if sign == "-" else new_lines)
        other = places.get((sign, old if sign == "-" else new))
        numbers = old if sign != "+" else None, new if sign != "-" else None
        dressed.append(Line(KINDS[sign], *numbers, html, other, is_open=not text.endswith("\n")))
    return dressed


def _pairs(lines) -> list[tuple[int, int]]:
    """Return (number in the old text, number in the new text) of removed lines and those that replace them."""
    pairs, gone, come, old, new = [], [], [], 0, 0
    for sign in [*(line[0] for line in lines), " "]:
        if sign == "-":
            gone.append(old)
        elif sign == "+":
            come.append(new)
        else:
            pairs += zip(gone, come, strict=False)
            gone, come = [], []
        old, new = old + (sign in " -"), new + (sign in " +")
    return pairs
