"""Canonical JSON (RFC 8785): the bytes that are hashed and signed."""

import json
from json.encoder import encode_basestring
from math import isfinite

MOST = 2**53 - 1  # the largest whole number that every program holds exactly


class NoCanonicalForm(ValueError):
    """The value has no canonical JSON: a lone surrogate, NaN, a whole number beyond MOST, or no JSON at all."""


def dumps(value) -> bytes:
    """Return the canonical JSON. Raise NoCanonicalForm; RecursionError if it is nested too deep."""
    parts: list[str] = []
    _write(value, parts.append)
    try:
        return "".join(parts).encode()
    except UnicodeEncodeError:
        raise NoCanonicalForm("input contains non-UTF-8 codepoints") from None


def loads_once(text: bytes):
    """Parse JSON. ValueError for anything else, for NaN, and for an object that has a key twice."""
    return json.loads(text, object_pairs_hook=_once_each, parse_constant=_no_constant)


def _write(value, put):
    if isinstance(value, str):
        put(encode_basestring(value))
    elif value is None or value is True or value is False:
        put({None: "null", True: "true", False: "false"}[value])
    elif isinstance(value, int):
        put(_whole(value))
    elif isinstance(value, float):
        put(_number(value))
    elif isinstance(value, dict):
        _write_object(value, put)
    elif isinstance(value, list | tuple):
        put("[")
        for position, item in enumerate(value):
            if position:
                put(",")
            _write(item, put)
        put("]")
    else:
        raise NoCanonicalForm(f"unsupported type: {type(value)}")


def _write_object(value: dict, put):
    put("{")
    for position, key in enumerate(sorted(value, key=_utf16)):
        if position:
            put(",")
        put(encode_basestring(key))
        put(":")
        _write(value[key], put)
    put("}")


def _utf16(key) -> bytes:
    if not isinstance(key, str):
        raise NoCanonicalForm("object keys must be strings")
    return key.encode("utf-16-be", "surrogatepass")


def _whole(value: int) -> str:
    if not -MOST <= value <= MOST:
        raise NoCanonicalForm(f"{int(value)} exceeds safe integer domain for JSON floats")
    return int.__repr__(value)


def _number(value: float) -> str:
    """Write a number as ECMAScript does."""
    if not isfinite(value):
        raise NoCanonicalForm(f"{float(value)} is not representable in JCS")
    if value == 0:
        return "0"
    mantissa, _, exponent = float.__repr__(value).partition("e")
    if not exponent:
        return mantissa.removesuffix(".0")
    sign, digits, power = "-" if value < 0 else "", mantissa.lstrip("-").replace(".", ""), int(exponent)
    if 0 < power < 21:
        return sign + digits.ljust(power + 1, "0")
    if -7 < power < 0:
        return f"{sign}0.{'0' * (-power - 1)}{digits}"
    return f"{mantissa}e{power:+d}"


def _once_each(pairs):
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key appears twice")
    return found


def _no_constant(name):
    raise ValueError(f"{name} is not JSON")
