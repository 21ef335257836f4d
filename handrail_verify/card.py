"""The attested card, profile 1: which values of a call a person's page showed (docs/attested-card.md).

A *statement* is what a page says of the card that it rendered:

    {"profile": 1, "call": digest, "values": sha256, "count": n, "read": n, "without": [names of arguments]}

`values` is over the texts of all values of the call's arguments, read out of the rendered page: strings as they are,
numbers with their digits, true, false and null, and [] and {} for what is empty.
"""

import hashlib
import json

from handrail_verify import canonical

PROFILE = 1
KEYS = {"profile", "call", "values", "count", "read", "without"}
MOST_NAMES, MOST_CHARACTERS = 20, 4000  # of arguments that are shown in another way, and of a statement


class _Digits(str):
    """A number with the digits in which it was written."""


def values_of(call: bytes, without=()) -> list[str]:
    """Return the text of each value among the arguments of a call (canonical JSON), in their order. ValueError.

    `without`: arguments that the page shows in another way, such as the text of a file as a difference.
    """
    arguments = json.loads(call, parse_int=_Digits, parse_float=_Digits)["arguments"]
    found: list[str] = []
    for name, value in arguments.items():
        if name not in without:
            _collect(value, found)
    return found


def _collect(value, found: list[str]):
    if isinstance(value, dict | list) and value:
        for each in value.values() if isinstance(value, dict) else value:
            _collect(each, found)
    else:
        found.append(value if isinstance(value, str) else json.dumps(value))


def hash_of(values: list[str]) -> str:
    """Return the SHA-256 (hex) over the sorted SHA-256 of the values, one on a line: their order does not matter."""
    each = sorted(hashlib.sha256(value.encode("utf-8", "surrogatepass")).hexdigest() for value in values)
    return hashlib.sha256("\n".join(each).encode()).hexdigest()


def digest_of(statement: dict) -> str:
    """Return the SHA-256 (hex) of a statement, which the decision keeps and the passkey signs."""
    return hashlib.sha256(canonical.dumps(statement)).hexdigest()


def read(text: str) -> dict | None:
    """Return the statement that a page sent; None for anything else."""
    try:
        found = canonical.loads_once(text.encode()) if len(text) <= MOST_CHARACTERS else None
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict) or set(found) != KEYS or found["profile"] != PROFILE:
        return None
    numbers = all(type(found[name]) is int and 0 <= found[name] < 10**9 for name in ("count", "read"))
    hashes = all(isinstance(found[name], str) and len(found[name]) == 64 for name in ("call", "values"))
    names = found["without"]
    listed = isinstance(names, list) and len(names) <= MOST_NAMES and all(isinstance(name, str) for name in names)
    return found if numbers and hashes and listed and found["read"] <= found["count"] else None


def faults(statement: dict, call: bytes) -> list[str]:
    """Return what is wrong with a statement about this call, as sentences: [] if the page showed each of its values."""
    if hashlib.sha256(call).hexdigest() != statement["call"]:
        return ["The page showed another call."]
    values = values_of(call, statement["without"])
    if hash_of(values) != statement["values"] or len(values) != statement["count"]:
        return ["The page did not show exactly the values of the call."]
    unread = statement["count"] - statement["read"]
    return [f"{unread} of {statement['count']} values were never in view."] if unread else []
