"""Find what differs between two versions of a line, word by word. No Django here: workspaces.changes.lexing runs it."""

import re
from difflib import SequenceMatcher

MAX_CHARS = 500  # of a line; longer ones get no marks
MAX_WORDS = 160
LEAST_ALIKE = 0.35  # lines that have less in common are two lines, not two versions of one
_WORDS = re.compile(r"\w+|\s+|[^\w\s]")

Span = tuple[int, int]


def spans(old: str, new: str) -> tuple[list[Span], list[Span]]:
    """Return the ranges of characters that only the old, and only the new line has; none for unlike lines."""
    if old == new or max(len(old), len(new)) > MAX_CHARS:
        return [], []
    before, after = _WORDS.findall(old), _WORDS.findall(new)
    if max(len(before), len(after)) > MAX_WORDS:
        return [], []
    blocks = SequenceMatcher(None, before, after, autojunk=False).get_matching_blocks()
    alike = sum(len(word) for at, _, size in blocks for word in before[at : at + size] if not word.isspace())
    longest = max(len("".join(old.split())), len("".join(new.split())))
    if not longest or alike / longest < LEAST_ALIKE:
        return [], []
    return (
        _between(before, [(at, at + size) for at, _, size in blocks]),
        _between(after, [(at, at + size) for _, at, size in blocks]),
    )


def _between(words: list[str], same: list[Span]) -> list[Span]:
    """Return the ranges of characters outside the runs of equal words; two with only a blank between are one."""
    starts = [0]
    for word in words:
        starts.append(starts[-1] + len(word))
    found, at = [], 0
    for begin, end in same:
        if at < begin:
            span = (starts[at], starts[begin])
            if found and "".join(words)[found[-1][1] : span[0]].isspace():
                span = (found.pop()[0], span[1])
            found.append(span)
        at = max(at, end)
    return found
