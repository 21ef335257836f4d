"""Differences between texts as lines to show: coloured, with hidden characters as marks."""

from dataclasses import dataclass, field, replace
from itertools import zip_longest

from django.utils.safestring import SafeString

from workspaces.colours import coloured_lines
from workspaces.store.text import text_diff

SHOWN_LINES = 2000  # of one file; the rest is in the patch


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
        """(left, right) side by side: what went beside what came in its place."""
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
    """One file between two points. `kind`: added, modified, deleted, renamed, mode."""

    path: str
    kind: str
    hunks: list[Hunk] = field(default_factory=list)
    additions: int = 0
    deletions: int = 0
    binary: bool = False
    cut: int = 0  # lines that are not shown
    note: str = ""
    old_path: str = ""
    from_: int | None = None  # the snapshot that the file, or a part of it, can be put back to
    seen: str = ""  # digest of the live content, where parts can be put back


def raw_hunks(old: bytes, new: bytes):
    """[(heading, [(sign, old number, new number, text)])] with three lines of context; None for binary content."""
    diff = text_diff(old, new, max_bytes=max(len(old), len(new)))
    if diff.binary:
        return None
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


def compare(path: str, old: bytes | None, new: bytes | None) -> FileDiff:
    """What turns `old` into `new`; None is a file that is not there."""
    kind = "added" if old is None else "deleted" if new is None else "modified"
    diff = FileDiff(path, kind)
    hunks = raw_hunks(old or b"", new or b"")
    if hunks is None:
        diff.binary = True
        return diff
    return dress(diff, hunks)


def split(diff: FileDiff, most: int) -> tuple[FileDiff, FileDiff]:
    """The first lines of a difference, and the rest of it."""
    head, rest = replace(diff, hunks=[], cut=0), replace(diff, hunks=[], note="")
    for hunk in diff.hunks:
        room = most - sum(len(shown.lines) for shown in head.hunks)
        if room > 0:
            head.hunks.append(Hunk(hunk.heading, hunk.lines[:room]))
        if left := hunk.lines[max(0, room) :]:
            rest.hunks.append(Hunk("" if room > 0 else hunk.heading, left))
    return head, rest


KINDS = {" ": "same", "+": "added", "-": "removed"}


def dress(diff: FileDiff, hunks, *, most: int = SHOWN_LINES) -> FileDiff:
    """Fill `diff` from raw hunks: counts, colours, marks, at most `most` lines."""
    left = most
    for heading, lines in hunks:
        diff.additions += sum(1 for line in lines if line[0] == "+")
        diff.deletions += sum(1 for line in lines if line[0] == "-")
        shown = lines[:left]
        left -= len(shown)
        diff.cut += len(lines) - len(shown)
        if shown:
            # Of a file that is all new or all gone the heading says nothing.
            diff.hunks.append(Hunk(heading if diff.kind == "modified" else "", _coloured(diff.path, shown)))
    return diff


def _coloured(path: str, lines) -> list[Line]:
    # Each side is coloured as a text of its own, so that a removed quote does not bleed into what was added.
    sides = {
        side: iter(coloured_lines("".join(text for sign, _, _, text in lines if sign in side), path))
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
