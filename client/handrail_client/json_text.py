"""JSON whose numbers keep the digits in which they were written: what a person approved is what is sent."""

import json
from typing import Any


class Digits(float):
    """A number that Python would write otherwise, such as 1.10, 1e2 or 1.000000000000000001: a float with its text."""

    text: str

    def __new__(cls, text: str):
        made = super().__new__(cls, text)
        made.text = text
        return made

    def __eq__(self, other):
        return self.text == other.text if isinstance(other, Digits) else NotImplemented

    __hash__ = float.__hash__

    def __reduce__(self):
        return (Digits, (self.text,))

    def __str__(self):
        return self.text

    __repr__ = __str__


def number(text: str) -> float:
    """Return what a number with a point or an exponent is kept as."""
    plain = float(text)
    return plain if repr(plain) == text else Digits(text)


def _int(text: str) -> int | float:
    return Digits(text) if text == "-0" else int(text)


def loads(text: str | bytes, **hooks) -> Any:
    """Parse JSON, each number with its digits; ValueError if it is none. `hooks` are those of json.loads."""
    return json.loads(text, **{"parse_float": number, "parse_int": _int} | hooks)


def dumps(value: Any, *, sort_keys: bool = False, ensure_ascii: bool = True, separators=(",", ":")) -> str:
    """Return the JSON text; ValueError for what is no number, TypeError for what has no JSON."""
    comma, colon = separators

    def text(part: Any) -> str:
        return json.dumps(part, ensure_ascii=ensure_ascii, allow_nan=False)

    def write(part: Any) -> str:
        if isinstance(part, Digits):
            return part.text
        if isinstance(part, dict):
            items = sorted(part.items()) if sort_keys else part.items()
            return "{" + comma.join(text(_key(key)) + colon + write(each) for key, each in items) + "}"
        if isinstance(part, (list, tuple)):
            return "[" + comma.join(map(write, part)) + "]"
        return text(part)

    return write(value)


def _key(key: Any) -> str:
    return key if isinstance(key, str) else next(iter(json.loads(json.dumps({key: None}))))
