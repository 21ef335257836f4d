"""Find the lines of a text that match a pattern, with the lines around them."""

import re
from collections import deque
from collections.abc import Iterable
from itertools import islice

from workspaces.programs.kept_text.lines import Refused, lines_of

MAX_SHOWN, LEAD = 2000, 200  # characters of a line in the answer, and of those before its first match
MAX_SPANS = 100  # matches of one line that are marked
MAX_ANSWER = 1_000_000  # characters of all lines of an answer


def search(
    pieces: Iterable[bytes],
    pattern: str,
    *,
    fixed: bool = False,
    ignore_case: bool = False,
    before: int = 0,
    after: int = 0,
    limit: int = 100,
    from_line: int = 1,
) -> dict:
    """Return {lines, found, more_from} of the first `limit` lines that match, from the line `from_line` on.

    Each of `lines` is {n, text, column, matches}: its number from 1, at most MAX_SHOWN characters of it, how many of it
    come before these, and [begin, end] in `text` of each match; a line around a match has none. `found` counts the
    lines that match; `more_from` is the number of the next one, None if there is no more. Raise Refused.
    """
    answer = _Answer(before, after)
    meet = _compiled(pattern, fixed, ignore_case).finditer
    for number, text in enumerate(lines_of(pieces), 1):
        if number < from_line:
            continue
        spans = [match.span() for match in islice(meet(text), MAX_SPANS)]
        if answer.size > MAX_ANSWER or (spans and answer.found == limit):
            return answer.as_json(more_from=number)
        answer.take(number, text, spans)
    return answer.as_json(more_from=None)


def _compiled(pattern: str, fixed: bool, ignore_case: bool) -> re.Pattern:
    try:
        # pattern: of whoever asks; the process that it runs in is ended when it takes too long
        return re.compile(re.escape(pattern) if fixed else pattern, re.IGNORECASE if ignore_case else 0)
    except (re.error, ValueError, RecursionError, OverflowError) as error:
        raise Refused(f"The pattern cannot be read: {error}.") from None


class _Answer:
    """The lines of an answer so far, and those that come before the next match."""

    def __init__(self, before: int, after: int):
        self.lines, self.found, self.size = [], 0, 0
        self._after, self._due = after, 0
        self._held: deque[tuple[int, str]] = deque(maxlen=before)

    def take(self, number: int, text: str, spans: list[tuple[int, int]]):
        if spans:
            for held in self._held:
                self._show(*held, [])
            self._held.clear()
            self._show(number, text, spans)
            self.found += 1
            self._due = self._after
        elif self._due:
            self._show(number, text, [])
            self._due -= 1
        else:
            self._held.append((number, text))

    def _show(self, number: int, text: str, spans: list[tuple[int, int]]):
        column = max(0, spans[0][0] - LEAD) if spans and spans[0][1] > MAX_SHOWN else 0
        shown = text[column : column + MAX_SHOWN]
        inside = [
            [begin - column, min(end - column, len(shown))] for begin, end in spans if begin - column <= len(shown)
        ]
        self.size += len(shown)
        self.lines.append({"n": number, "text": shown, "column": column, "length": len(text), "matches": inside})

    def as_json(self, more_from: int | None) -> dict:
        return {"lines": self.lines, "found": self.found, "more_from": more_from}
