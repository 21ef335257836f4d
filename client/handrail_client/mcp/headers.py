"""Headers in which requests of MCP's second generation repeat what their body says: checked, and set anew."""

import base64
import binascii
import re
from typing import Any

from handrail_client import json_text
from handrail_client.mcp import protocol

METHOD, NAME, VERSION, PARAM = "Mcp-Method", "Mcp-Name", "MCP-Protocol-Version", "Mcp-Param-"
NAMED_BY = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
# A text that starts or ends with a blank, or has other characters than visible ones, is sent in base64.
PLAIN = re.compile(r"(?![ \t])[\t -~]*(?<![ \t])")
# pattern: the whole of a value has to match it
ENCODED = re.compile(r"=\?base64\?(.*)\?=", re.DOTALL)

Headers = list[tuple[str, str]]


class Mismatch(ValueError):
    """A header says something else than the body."""


def own(message: dict, schema: Any = None) -> Headers:
    """Return the headers that repeat the body: the method, the name, and the arguments that the tool's schema marks."""
    return [(name, _encoded(text)) for name, text in _meant(message, schema).items() if text is not None]


def anew(headers: Headers, message: dict, schema: Any = None) -> Headers:
    """Return a client's headers with those that repeat the body set for this message."""
    kept = [each for each in headers if not _repeats(each[0].lower())]
    return kept + (own(message, schema) if protocol.has_meta(message) else [])


def check(headers: Headers, message: Any, schema: Any = None):
    """Raise Mismatch where a header says something else than the body, or a call of 2026-07-28 lacks one."""
    meant = {name.lower(): text for name, text in _meant(message, schema).items()}
    version = protocol.meta_of(message).get(protocol.VERSION)
    meant |= {} if version is None else {VERSION.lower(): version}
    if version is not None and message.get("method") == "tools/call":
        given = {name.lower() for name, _ in headers}
        for name in (each for each, text in meant.items() if text is not None and each not in given):
            raise Mismatch(f"The header {name} is missing.")
    for name, value in headers:
        if name.lower() in meant and not _same(_decoded(value), meant[name.lower()]):
            raise Mismatch(f"The header {name} says {value[:80]!r}, the body something else.")


def _meant(message: Any, schema: Any) -> dict[str, str | None]:
    method = message.get("method") if isinstance(message, dict) else None
    params = protocol.params_of(message)
    found = {METHOD: method} | ({NAME: params.get(NAMED_BY[method])} if method in NAMED_BY else {})
    found |= {PARAM + name: _at(params.get("arguments"), path) for path, name in _marked(schema)}
    return {name: _text(value) for name, value in found.items()}


def _repeats(name: str) -> bool:
    return name in (METHOD.lower(), NAME.lower()) or name.startswith(PARAM.lower())


def _marked(schema: Any, path: tuple = ()):
    """Yield (path, name) of the properties that `x-mcp-header` marks, as deep as `properties` alone lead."""
    properties = schema.get("properties") if isinstance(schema, dict) else None
    for key, each in properties.items() if isinstance(properties, dict) else ():
        name = each.get("x-mcp-header") if isinstance(each, dict) else None
        if isinstance(name, str) and re.fullmatch(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", name):
            yield (*path, key), name
        yield from _marked(each, (*path, key))


def _at(value: Any, path: tuple) -> Any:
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _text(value: Any) -> str | None:
    if isinstance(value, str):
        return value
    return json_text.dumps(value) if isinstance(value, (bool, int, float)) else None


def _encoded(text: str) -> str:
    if PLAIN.fullmatch(text) and not ENCODED.fullmatch(text):
        return text
    return f"=?base64?{base64.b64encode(text.encode('utf-8', 'surrogatepass')).decode()}?="


def _decoded(value: str) -> str | None:
    """Return what a header says; None if it can't be read."""
    value = value.strip(" \t")
    if not (coded := ENCODED.fullmatch(value)):
        return value
    try:
        return base64.b64decode(coded[1], validate=True).decode()
    except (binascii.Error, ValueError):
        return None


def _same(one: str | None, other: str | None) -> bool:
    """Whether two values are one: `42.0` in a header is the integer 42."""
    if one is None or other is None or one == other:
        return one == other
    whole = re.compile(r"(-?\d+)(?:\.0*)?")
    found, meant = whole.fullmatch(one), whole.fullmatch(other)
    return bool(found and meant) and int(found[1]) == int(meant[1])
