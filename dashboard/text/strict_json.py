"""Strict JSON for agents' bodies: no duplicate keys, NaN or lone surrogates, nothing without a canonical form.

The canonical form is that of RFC 8785, but that each number stands with the digits in which it was sent: 1, 1.0 and 1e0
are three, and what no double holds exactly (2^53 + 1, 1.000000000000000001) is what it is. Numbers that RFC 8785 writes
as they were sent, nearly all, have its form to the byte.
"""

import asyncio
import json
import threading
from contextlib import contextmanager

from dashboard import json_text
from dashboard.problems import Problem, invalid
from handrail_verify import canonical as rfc8785
from handrail_verify.canonical import MOST

MAX_VALUES = 20_000  # in one text: parsing and serializing that many takes 20 ms, in which nothing else runs
_turns = threading.BoundedSemaphore(2)


@contextmanager
def _in_turn():
    """Let only two threads parse at a time: a hundred would delay each other and every page."""
    if asyncio._get_running_loop() is not None:
        yield  # the event loop must not wait for a thread
        return
    with _turns:
        yield


def _no_duplicates(pairs):
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise invalid(f"The key {twice!r} stands twice in one object; which one counts is not ours to guess.")
    return found


def loads_large(raw: bytes):
    """Parse JSON of any size; refuse repeated names, NaN and numbers that are too large. Raise Problem 422."""
    try:
        return json_text.loads(raw, object_pairs_hook=_no_duplicates, parse_constant=_no_constants)
    except json_text.TooLarge as error:
        raise invalid(str(error)) from None
    except (ValueError, RecursionError):
        raise invalid("It is not JSON.") from None


def _no_constants(name):
    raise invalid(f"{name} is not JSON.")


def loads(raw: bytes):
    """Parse strictly. Raise Problem 400 if it is not JSON, 422 if it has too many values or no canonical form."""
    with _in_turn():
        if _values(raw) > MAX_VALUES:
            raise invalid(f"The JSON holds more than {MAX_VALUES:,} values.")
        return _loads(raw)


def _values(raw: bytes) -> int:
    """Return an upper bound of the number of keys and values, counted without parsing."""
    found = _signs(raw)
    if found > MAX_VALUES:
        # Count again without strings, where these characters are text.
        found = _signs(b"".join(raw.replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"')[::2]))
    return found


def _signs(raw: bytes) -> int:
    return sum(map(raw.count, (b",", b":", b"[", b"{")))


def _loads(raw: bytes):
    try:
        text = raw.decode("utf-8")
        parsed = json_text.loads(text, object_pairs_hook=_no_duplicates, parse_constant=_no_constants)
    except UnicodeDecodeError as error:
        raise Problem(400, f"The body is not UTF-8 (byte {error.start}).") from None
    except json.JSONDecodeError as error:
        raise Problem(400, f"The body is not JSON: {error}.") from None
    except RecursionError:
        raise invalid("The JSON is nested too deep.") from None
    except json_text.TooLarge as error:
        raise invalid(str(error)) from None
    _canonical(parsed)
    return parsed


def canonical(value) -> bytes:
    """Return the canonical bytes. Raise Problem 422 if there are none (lone surrogates)."""
    with _in_turn():
        return _canonical(value)


def same(one, other) -> bool:
    """Return whether two JSON values are equal. Python's own comparison takes true for 1 and false for 0."""
    return canonical(one) == canonical(other)


def _canonical(value) -> bytes:
    try:
        marked, restored = json_text.with_marks(value, _has_own_form)
        return restored(rfc8785.dumps(marked).decode()).encode()
    except RecursionError:
        raise invalid("The JSON is nested too deep.") from None
    except rfc8785.NoCanonicalForm as error:
        raise invalid(f"This has no canonical form: {error}.") from None


def _has_own_form(value) -> bool:
    """Whether the value is a number that RFC 8785 would write otherwise, or not at all."""
    return isinstance(value, json_text.Digits) or (type(value) is int and abs(value) > MOST)


def without_nul(value):
    """Return the value with ␀ in the place of NUL, which PostgreSQL can't store; the same one where there is none."""
    if isinstance(value, str):
        return value.replace("\0", "␀") if "\0" in value else value
    if isinstance(value, dict):
        return {without_nul(key): without_nul(each) for key, each in value.items()}
    return [without_nul(each) for each in value] if isinstance(value, list) else value
