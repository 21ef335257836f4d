"""Takes the values of secrets out of what a program prints, before it is recorded."""

from collections.abc import Iterable

from ..disguises import disguises


class Redactor:
    """Bytes in, bytes out, in pieces of any size: each value, in each form that we know, becomes `[secret NAME]`.

    What may be the beginning of a value is held back until more comes, or until `flush`: a prompt must not wait for
    ever. The memory is that of the longest form.
    """

    def __init__(self, hidden: Iterable[tuple[str, str]]):
        """`hidden`: (name, value) of each secret."""
        forms: dict[bytes, bytes] = {}
        for name, value in hidden:
            for form in disguises(value.encode()):
                forms.setdefault(form, f"[secret {name}]".encode())
        self._forms = dict(sorted(forms.items(), key=lambda item: -len(item[0])))
        self._longest = max(map(len, self._forms), default=0)
        self._held = b""  # the end of the input so far, if a form may begin there
        self._told = 0  # how much of it was given out already

    @property
    def waits(self) -> bool:
        """Is anything held back?"""
        return len(self._held) > self._told

    def feed(self, data: bytes) -> bytes:
        """What can be given out now."""
        if not self._forms:
            return data
        return self._take(self._held + data, self._begins)

    def flush(self) -> bytes:
        """Give out what was held back; if it turns out to be a value after all, its rest is still taken out."""
        return self._take(self._held, lambda data, at: len(data))

    def _take(self, data: bytes, limit) -> bytes:
        out, at, told = [], 0, self._told
        while True:
            start, form = self._first(data, at)
            held_from = limit(data, at)
            if form is None or held_from <= start:
                break
            out += (data[max(at, told) : start], self._forms[form])
            at = start + len(form)
        out.append(data[max(at, told) : max(held_from, told)])
        begins = self._begins(data, at)
        self._held, self._told = data[begins:], max(held_from, told) - begins
        return b"".join(out)

    def _first(self, data: bytes, at: int) -> tuple[int, bytes | None]:
        """The first form in the data from `at` on, the longest where several begin."""
        start, found = len(data), None
        for form in self._forms:  # longest first
            place = data.find(form, at, min(len(data), start + len(form)))
            if 0 <= place < start:
                start, found = place, form
        return start, found

    def _begins(self, data: bytes, at: int) -> int:
        """Where the rest of the data may be the beginning of a form; its end if nowhere."""
        earliest = len(data)
        for form in self._forms:
            place = max(at, len(data) - len(form) + 1)
            while (place := data.find(form[:1], place, earliest)) != -1:
                if form.startswith(data[place:]):
                    earliest = place
                    break
                place += 1
        return earliest
