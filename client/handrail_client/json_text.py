"""JSON whose numbers keep the digits in which they were written: what a person approved is what is sent and run.

The client, Handrail and its program for ACP have this file each, as they share no other code.
"""

import json
import re
import uuid
from typing import Any


class Digits(float):
    """A number that Python would write otherwise, such as 1.10, 1e2 or 1.000000000000000001: a float with its text.

    It compares and counts as the float does; two that differ in their text alone are told apart by their JSON.
    """

    text: str

    def __new__(cls, text: str):
        made = super().__new__(cls, text)
        made.text = text
        return made

    def __reduce__(self):
        return Digits, (self.text,)

    def __str__(self):
        return self.text

    __repr__ = __str__


class TooLarge(ValueError):
    """No double reaches a number that is so large, so most programs would read infinity."""


def number(text: str) -> float:
    """Return what a number with a point or an exponent is kept as. Raise TooLarge."""
    plain = _double(text)
    # 1.0 and 1e-07 are written 1 and 1e-7 in canonical JSON.
    return plain if repr(plain) == text and "e" not in text and not text.endswith(".0") else Digits(text)


def _whole(text: str) -> int | float:
    _double(text)
    return Digits(text) if text == "-0" else int(text)


def _double(text: str) -> float:
    """Return the double nearest to a number. Raise TooLarge, whichever way the number is written."""
    nearest = float(text)
    if nearest in (float("inf"), float("-inf")):
        shown = text if len(text) <= 40 else f"{text[:30]}… ({len(text):,} characters)"
        raise TooLarge(f"The number {shown} is larger than programs can hold: send it as a text.")
    return nearest


def loads(text: str | bytes, **options) -> Any:
    """Parse as json.loads does, each number with its digits. ValueError."""
    return json.loads(text, **{"parse_float": number, "parse_int": _whole} | options)


def loads_as_written(text: str | bytes) -> Any:
    """Parse what somebody else answers for, each number with its digits, whether a program holds it or not."""
    return json.loads(text, parse_float=Digits, parse_int=Digits)


def dumps(value: Any, **options) -> str:
    """Write as json.dumps does, each number with its digits."""
    marked, restored = with_marks(value)
    return restored(json.dumps(marked, **options))


def with_marks(value: Any, is_kept=lambda part: isinstance(part, Digits)):
    """Return the value with a text in the place of each number that is kept, and what puts the digits into its JSON."""
    numbers: list[str] = []
    mark = uuid.uuid4().hex  # nobody can write a text that is taken for a number

    def marked(part):
        if isinstance(part, dict):
            made = {}
            for key, each in part.items():
                made[key] = marked(each)
            return made
        if isinstance(part, (list, tuple)):
            listed = []
            for each in part:
                listed.append(marked(each))
            return listed
        if is_kept(part):
            numbers.append(str(part))
            return f"{mark}{len(numbers) - 1}"
        return part

    def restored(text: str) -> str:
        # pattern: a mark of letters, then digits
        return re.sub(f'"{mark}([0-9]+)"', lambda found: numbers[int(found[1])], text) if numbers else text

    return marked(value), restored
