"""Find blocks of lines that were taken from one place of a file and put in another."""

from collections import defaultdict
from itertools import groupby

LEAST_LINES = 3
LEAST_LETTERS = 20  # letters and digits in a block; git's --color-moved has the same limit
MAX_LINES = 3000  # removed and added ones that are compared
MAX_PLACES = 8  # of one line; what stands in more is no sign of a block


def moved(lines) -> dict[tuple[str, int], int]:
    """Return {(sign, line number): line number on the other side} of the lines of moved blocks.

    `lines` are (sign, old line number, new line number, text), as workspaces.changes.diff.raw_hunks has them.
    """
    gone = {old: text for sign, old, _, text in lines if sign == "-"}
    come = {new: text for sign, _, new, text in lines if sign == "+"}
    if not gone or not come or len(gone) + len(come) > MAX_LINES:
        return {}
    places = defaultdict(list)
    for number, text in gone.items():
        places[text].append(number)
    found: dict[tuple[str, int], int] = {}
    for run in _runs(come):
        at = 0
        while at < len(run):
            at += _longest(run[at:], gone, come, places, found) or 1
    return found


def _longest(run: list[int], gone, come, places, found) -> int:
    """Note the longest moved block that begins at the first line of `run`; return its number of lines, 0 for none."""
    starts = places.get(come[run[0]], ())
    if not come[run[0]].strip() or len(starts) > MAX_PLACES:
        return 0
    best: list[tuple[int, int]] = []
    for start in starts:
        block = []
        for offset, new in enumerate(run):
            if gone.get(start + offset) != come[new] or ("-", start + offset) in found:
                break
            block.append((start + offset, new))
        best = max(best, block, key=len)
    letters = sum(character.isalnum() for _, new in best for character in come[new])
    if len(best) < LEAST_LINES or letters < LEAST_LETTERS:
        return 0
    for old, new in best:
        found["-", old], found["+", new] = new, old
    return len(best)


def _runs(lines: dict[int, str]) -> list[list[int]]:
    """Return the numbers as lists of consecutive ones."""
    numbered = enumerate(sorted(lines))
    return [[number for _, number in run] for _, run in groupby(numbered, key=lambda pair: pair[1] - pair[0])]
