"""The value that is looked for: its encodings, whether a text has it, and the text without it."""

import zlib

from django.utils.crypto import salted_hmac

from dashboard.keys.secret_forms import MIN_BYTES, encoded_forms
from dashboard.problems import invalid
from workspaces.secrets import VALUE_BYTES

MARK = "[purged]"  # as long as the shortest value, so that it never makes a text of bytes longer
INFLATED_BYTES = 16 << 20  # most bytes that one compressed file is unpacked to
_ZLIB = b"\x78"  # the first byte of each object that git stores by itself


class Wanted:
    """A value of eight bytes or more; never shown, and not part of any representation."""

    def __init__(self, value: str):
        try:
            data = value.replace("\r\n", "\n").encode()
        except UnicodeEncodeError:
            raise invalid("A value is text.") from None
        if not MIN_BYTES <= len(data) <= VALUE_BYTES:
            raise invalid(f"Give a value of {MIN_BYTES} to {VALUE_BYTES:,} bytes.")
        self.value = value
        self._forms = encoded_forms(data)
        self.longest = len(self._forms[0])
        self.fingerprint = salted_hmac("handrail.scrub", data, algorithm="sha256").hexdigest()

    def is_in(self, data: bytes) -> bool:
        return any(form in data for form in self._forms)

    def is_in_text(self, text: str) -> bool:
        return self.is_in(_bytes(text))

    def is_in_file(self, data: bytes) -> bool:
        """Like `is_in`, also inside of an object that git stored by itself."""
        return self.is_in(data) or (data[:1] == _ZLIB and self.is_in(_inflated(data)))

    def out_of(self, text: str) -> str:
        """Return the text with the mark in the place of each form."""
        return _text(self._replaced(_bytes(text), lambda form: MARK.encode()))

    def out_of_json(self, found):
        """Return plain JSON without the value in any text or name."""
        if isinstance(found, str):
            return self.out_of(found)
        if isinstance(found, dict):
            return {self.out_of(name): self.out_of_json(value) for name, value in found.items()}
        return [self.out_of_json(value) for value in found] if isinstance(found, list) else found

    def out_of_bytes(self, data: bytes) -> bytes:
        """Return as many bytes, with the mark and asterisks in the place of each form."""
        return self._replaced(data, lambda form: MARK.encode().ljust(len(form), b"*"))

    def _replaced(self, data: bytes, mark) -> bytes:
        for form in self._forms:
            if form in data:
                data = data.replace(form, mark(form))
        return data


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogatepass")


def _inflated(data: bytes) -> bytes:
    try:
        return zlib.decompressobj().decompress(data, INFLATED_BYTES)
    except zlib.error:
        return b""
