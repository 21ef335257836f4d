"""Diffs as lines to display: with syntax colours, and hidden characters shown as marks."""

from dataclasses import dataclass, field, replace
from itertools import zip_longest

from django.utils.safestring import SafeString

from workspaces.highlight import coloured_lines, deadline
from workspaces.store.text import text_diff

SHOWN_LINES = 2000  # per file; the patch has the rest


@dataclass(frozen=True)
class Line:
    """`kind`: same, added, removed; `old` and `new` are line numbers from 1, or None."""

    kind: str
    old: int | None
    new: int | None
    html: SafeString


@dataclass(frozen=True)
class Hunk:
    heading: str
    lines: list[Line]

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
    cut: int = 0  # number of lines not shown
    note: str = ""
    download: str = ""  # URL of the file's bytes when they are not shown
    is_link: bool = False
    old_path: str = ""
    from_: int | None = None  # the snapshot that the file, or one hunk of it, can be reverted to
    seen: str = ""  # digest of the live content, when hunks can be reverted


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


def compare(path: str, old: bytes | None, new: bytes | None, *, until: float | None = None) -> FileDiff:
    """Return the diff that turns `old` into `new`; None means that there is no file. `until`: see `coloured_lines`."""
    kind = "added" if old is None else "deleted" if new is None else "modified"
    diff = FileDiff(path, kind)
    old, new = old or b"", new or b""
    found = text_diff(old, new, max_bytes=max(len(old), len(new)))
    diff.binary, diff.note = found.binary, TOO_LARGE if found.too_large else ""
    return dress(diff, raw_hunks(found), until=until)


def split(diff: FileDiff, most: int) -> tuple[FileDiff, FileDiff]:
    """Split a diff into its first `most` lines and the rest."""
    head, rest = replace(diff, hunks=[], cut=0), replace(diff, hunks=[], note="")
    for hunk in diff.hunks:
        room = most - sum(len(shown.lines) for shown in head.hunks)
        if room > 0:
            head.hunks.append(Hunk(hunk.heading, hunk.lines[:room]))
        if left := hunk.lines[max(0, room) :]:
            rest.hunks.append(Hunk("" if room > 0 else hunk.heading, left))
    return head, rest


KINDS = {" ": "same", "+": "added", "-": "removed"}


def dress(diff: FileDiff, hunks, *, most: int = SHOWN_LINES, until: float | None = None) -> FileDiff:
    """Fill `diff` from raw hunks with counts and coloured lines, at most `most` of them."""
    left, until = most, until or deadline()
    for heading, lines in hunks:
        diff.additions += sum(1 for line in lines if line[0] == "+")
        diff.deletions += sum(1 for line in lines if line[0] == "-")
        shown = lines[:left]
        left -= len(shown)
        diff.cut += len(lines) - len(shown)
        if shown:
            # An added or deleted file is one hunk, so its heading says nothing.
            diff.hunks.append(Hunk(heading if diff.kind == "modified" else "", _coloured(diff.path, shown, until)))
    return diff


def _coloured(path: str, lines, until: float) -> list[Line]:
    # Each side is coloured as a text of its own, so that a quote in a removed line does not affect added lines.
    sides = {
        side: iter(coloured_lines("".join(text for sign, _, _, text in lines if sign in side), path, until=until))
        for side in (" -", " +")
    }
    dressed = []
    for sign, old, new, _ in lines:
        if sign == " ":
            html = next(sides[" +"])
            next(sides[" -"])
        else:
            html = next(sides[" " + sign])
        dressed.append(Line(KINDS[sign], old if sign != "+" else None, new if sign != "-" else None, html))
    return dressed
