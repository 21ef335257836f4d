"""JSON as agents may send it: no duplicate keys, no NaN, no lone surrogates, nothing that has no canonical form."""

import json

import rfc8785

from dashboard.problems import Problem, invalid


def _no_duplicates(pairs):
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise invalid(f"The key {twice!r} stands twice in one object; which one counts is not ours to guess.")
    return found


def _no_constants(name):
    raise invalid(f"{name} is not JSON.")


def loads(raw: bytes):
    """Parse strictly; Problem 400 for what is not JSON, 422 for JSON with no canonical form."""
    try:
        parsed = json.loads(raw.decode("utf-8"), object_pairs_hook=_no_duplicates, parse_constant=_no_constants)
    except UnicodeDecodeError as error:
        raise Problem(400, f"The body is not UTF-8 (byte {error.start}).") from None
    except json.JSONDecodeError as error:
        raise Problem(400, f"The body is not JSON: {error}.") from None
    except (RecursionError, ValueError):
        raise invalid("The JSON is nested too deep, or holds a number too long.") from None
    canonical(parsed)
    return parsed


def canonical(value) -> bytes:
    """RFC 8785 bytes; Problem 422 for what has none (lone surrogates, numbers beyond 2^53)."""
    try:
        return rfc8785.dumps(value)
    except RecursionError:
        raise invalid("The JSON is nested too deep.") from None
    except (rfc8785.CanonicalizationError, UnicodeEncodeError) as error:
        raise invalid(f"This has no canonical form: {error}.") from None
