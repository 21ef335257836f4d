"""The lines of both sides of a diff by number: to quote those of a comment, and to find them again."""

import re
from html import unescape

from dashboard.problems import invalid
from workspaces.changes.diff import FileDiff

MAX_LINES = 50  # that one comment is about
MAX_CHARS = 500  # of a line that are kept and compared
_TAG = re.compile(r"<[^<>]*>")

Sides = dict[str, dict[int, str]]  # {"old": {1: text, …}, "new": …}


def of_contents(old: bytes | None, new: bytes | None) -> Sides:
    """Return the lines of both texts of a file; of a side that is absent, none."""
    return {"old": _numbered(old), "new": _numbered(new)}


def _numbered(content: bytes | None) -> dict[int, str]:
    if not content:
        return {}
    lines = content.split(b"\n")
    if not lines[-1]:
        lines.pop()
    return {number: _cut(line.decode("utf-8", "backslashreplace")) for number, line in enumerate(lines, 1)}


def of_diffs(diffs: list[FileDiff]) -> Sides:
    """Return the lines that the diffs of one file show. Hidden characters are the marks that stand for them."""
    sides = {"old": {}, "new": {}}
    for line in (line for diff in diffs for hunk in diff.hunks for line in hunk.lines):
        text = _cut(unescape(_TAG.sub("", line.html)))
        for side, number in (("old", line.old), ("new", line.new)):
            if number:
                sides[side][number] = text
    return sides


def _cut(text: str) -> str:
    return text.rstrip("\r\n").replace("\0", "␀")[:MAX_CHARS]


def quoted(sides: Sides, side: str, first: int, last: int) -> str:
    """Return the text of these lines. Problem 422 if one of them is not there, or if they are too many."""
    if last < first:
        raise invalid("The last line is before the first.")
    if last - first >= MAX_LINES:
        raise invalid(f"A comment can be about at most {MAX_LINES} lines.")
    lines = sides[side]
    missing = next((number for number in range(first, last + 1) if number not in lines), None)
    if missing is not None:
        raise invalid(f"There is no line {missing} {'before' if side == 'old' else 'after'} the change.")
    return "\n".join(lines[number] for number in range(first, last + 1))


def find(sides: Sides, side: str, line: int, quote: str) -> int | None:
    """Return where the quoted lines begin now; None if they are gone, or stand elsewhere more than once."""
    lines, wanted = sides[side], quote.split("\n")

    def is_at(start: int) -> bool:
        return all(lines.get(start + offset) == text for offset, text in enumerate(wanted))

    if is_at(line):
        return line
    elsewhere = [start for start, text in lines.items() if text == wanted[0] and is_at(start)]
    return elsewhere[0] if len(elsewhere) == 1 else None
