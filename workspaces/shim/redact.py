"""Redact secret values in a program's output before it is recorded."""

import copy
from collections.abc import Iterable

from ahocorasick_rs import BytesAhoCorasick, MatchKind

from dashboard.keys.secret_forms import MIN_BYTES, encoded_forms

PATTERNS_PER_AUTOMATON = (
    32  # patterns per automaton: beyond what SIMD compares in one step a search is twenty times slower
)


class Redactor:
    """Stream filter for pieces of any size: replaces each known form of each value by `[secret NAME]`.

    Bytes that may begin a value are held back until more arrive or until `flush`, since a prompt must not wait forever.
    Memory use is bounded by the longest form.
    """

    def __init__(self, hidden: Iterable[tuple[str, str]]):
        """`hidden`: (name, value) of each secret."""
        self._words: dict[bytes, bytes] = {}  # form: its replacement
        for name, value in hidden:
            for form in encoded_forms(value.encode()):
                self._words.setdefault(form, f"[secret {name}]".encode())
        forms = list(self._words)
        groups = [forms[at : at + PATTERNS_PER_AUTOMATON] for at in range(0, len(forms), PATTERNS_PER_AUTOMATON)]
        self._searches = [(BytesAhoCorasick(group, matchkind=MatchKind.LeftmostLongest), group) for group in groups]
        # The prefixes of forms: all those shorter than MIN_BYTES bytes, and the forms by their first MIN_BYTES bytes.
        self._short = {form[:size] for form in forms for size in range(1, MIN_BYTES)}
        self._by_anchor: dict[bytes, list[bytes]] = {}
        for form in forms:
            self._by_anchor.setdefault(form[:MIN_BYTES], []).append(form)
        self._anchors = list(self._by_anchor)
        self._anchor_search = BytesAhoCorasick(self._anchors)
        self._longest = max(map(len, forms), default=0)
        self._held = b""  # the end of the input so far, if a form may begin there
        self._returned = 0  # how many bytes of it were returned already

    def again(self) -> "Redactor":
        """Return a filter for another stream, without the work of preparing the search."""
        made = copy.copy(self)
        made._held, made._returned = b"", 0
        return made

    @property
    def longest(self) -> int:
        """Return the length of the longest form."""
        return self._longest

    @property
    def waits(self) -> bool:
        """Return True if bytes are held back."""
        return len(self._held) > self._returned

    def feed(self, data: bytes) -> bytes:
        """Take more input and return the output so far."""
        return self._take(self._held + data if self._held else data, hold=True) if self._words else data

    def flush(self) -> bytes:
        """Return what was held back. If it turns out to begin a value after all, the rest is still redacted."""
        return self._take(self._held, hold=False)

    def _take(self, data: bytes, *, hold: bool) -> bytes:
        out, at, returned = [], 0, self._returned
        begins = self._beginnings(data)
        matches = self._matches(data, 0)
        while matches:
            start, end, words = matches.pop()
            if hold and any(at <= begin <= start for begin in begins):
                break  # a longer form may begin there
            if start < at:  # it overlaps a redacted one; search again, since it may have hidden another match
                matches = self._matches(data, at)
                continue
            out += (data[max(at, returned) : start], words)
            at = end
        held_from = next((begin for begin in begins if begin >= at), len(data))
        until = max(held_from if hold else len(data), returned)
        out.append(data[max(at, returned) : until])
        self._held, self._returned = data[held_from:], until - held_from
        return b"".join(out)

    def _matches(self, data: bytes, at: int) -> list[tuple[int, int, bytes]]:
        """Return (start, end, replacement) of the forms from `at` on, in reverse order; the longest at each place."""
        part = data[at:] if at else data
        found = [
            (at + start, -(at + end), self._words[group[form]])
            for search, group in self._searches
            for form, start, end in search.find_matches_as_indexes(part)
        ]
        return [(start, -end, words) for start, end, words in sorted(found, reverse=True)]

    def _beginnings(self, data: bytes) -> list[int]:
        """Return the offsets from which the rest of the data may be the beginning of a form."""
        first = max(0, len(data) - self._longest + 1)
        tail = data[first:]
        found = [len(data) - size for size in range(1, min(MIN_BYTES, len(tail) + 1)) if tail[-size:] in self._short]
        for anchor, start, _end in self._anchor_search.find_matches_as_indexes(tail, overlapping=True):
            rest = tail[start:]
            if any(len(form) > len(rest) and form.startswith(rest) for form in self._by_anchor[self._anchors[anchor]]):
                found.append(first + start)
        return sorted(found)
