"""Takes the values of secrets out of what a program prints, before it is recorded."""

from collections.abc import Iterable

from ahocorasick_rs import BytesAhoCorasick, MatchKind

from ..disguises import LEAST, disguises

AT_ONCE = 32  # forms in one search: with more than the processor compares in one step it is twenty times slower


class Redactor:
    """Bytes in, bytes out, in pieces of any size: each value, in each form that we know, becomes `[secret NAME]`.

    What may be the beginning of a value is held back until more comes, or until `flush`: a prompt must not wait for
    ever. The memory is that of the longest form.
    """

    def __init__(self, hidden: Iterable[tuple[str, str]]):
        """`hidden`: (name, value) of each secret."""
        self._words: dict[bytes, bytes] = {}  # form: what stands for it
        for name, value in hidden:
            for form in disguises(value.encode()):
                self._words.setdefault(form, f"[secret {name}]".encode())
        forms = list(self._words)
        groups = [forms[at : at + AT_ONCE] for at in range(0, len(forms), AT_ONCE)]
        self._searches = [(BytesAhoCorasick(group, matchkind=MatchKind.LeftmostLongest), group) for group in groups]
        # The beginnings of forms: of less than eight bytes, and by their first eight.
        self._short = {form[:size] for form in forms for size in range(1, LEAST)}
        self._by_anchor: dict[bytes, list[bytes]] = {}
        for form in forms:
            self._by_anchor.setdefault(form[:LEAST], []).append(form)
        self._anchors = list(self._by_anchor)
        self._anchor_search = BytesAhoCorasick(self._anchors)
        self._longest = max(map(len, forms), default=0)
        self._held = b""  # the end of the input so far, if a form may begin there
        self._told = 0  # how much of it was given out already

    @property
    def waits(self) -> bool:
        """Is anything held back?"""
        return len(self._held) > self._told

    def feed(self, data: bytes) -> bytes:
        """What can be given out now."""
        return self._take(self._held + data, hold=True) if self._words else data

    def flush(self) -> bytes:
        """Give out what was held back; if it turns out to be a value after all, its rest is still taken out."""
        return self._take(self._held, hold=False)

    def _take(self, data: bytes, *, hold: bool) -> bytes:
        out, at, told = [], 0, self._told
        begins = self._beginnings(data)
        matches = self._matches(data, 0)
        while matches:
            start, end, words = matches.pop()
            if hold and any(at <= begin <= start for begin in begins):
                break  # a longer form may begin there
            if start < at:  # it begins in one that is taken out; what it hid in this search comes again
                matches = self._matches(data, at)
                continue
            out += (data[max(at, told) : start], words)
            at = end
        held_from = next((begin for begin in begins if begin >= at), len(data))
        until = max(held_from if hold else len(data), told)
        out.append(data[max(at, told) : until])
        self._held, self._told = data[held_from:], until - held_from
        return b"".join(out)

    def _matches(self, data: bytes, at: int) -> list[tuple[int, int, bytes]]:
        """(start, end, words) of the forms from `at` on, the first one last; of several in one place the longest."""
        part = data[at:] if at else data
        found = [
            (at + start, -(at + end), self._words[group[form]])
            for search, group in self._searches
            for form, start, end in search.find_matches_as_indexes(part)
        ]
        return [(start, -end, words) for start, end, words in sorted(found, reverse=True)]

    def _beginnings(self, data: bytes) -> list[int]:
        """From where on the rest of the data may be the beginning of a form."""
        first = max(0, len(data) - self._longest + 1)
        tail = data[first:]
        found = [len(data) - size for size in range(1, min(LEAST, len(tail) + 1)) if tail[-size:] in self._short]
        for anchor, start, _end in self._anchor_search.find_matches_as_indexes(tail, overlapping=True):
            rest = tail[start:]
            if any(len(form) > len(rest) and form.startswith(rest) for form in self._by_anchor[self._anchors[anchor]]):
                found.append(first + start)
        return sorted(found)
