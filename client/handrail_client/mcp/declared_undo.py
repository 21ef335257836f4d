"""Undo that a server declares in the `_meta` of a tool: the tool that takes a call back, and where its arguments are.

    "_meta": {"handrail/undo": {"tool": "delete_page", "arguments": {"id": {"result": "/id"}}}}

An argument is `{"argument": NAME}` of the call itself, `{"result": POINTER}` (RFC 6901, into the structured content of
the result, or the JSON in its only text), or `{"value": …}`.
"""

from typing import Any

from handrail_client import json_text

KEY = "handrail/undo"
SOURCES = ("argument", "result", "value")
MAX_ARGUMENTS = 20


def declared(definition: Any) -> dict | None:
    """Return the declaration in a tool's definition; None if there is none that makes sense."""
    meta = definition.get("_meta") if isinstance(definition, dict) else None
    told = meta.get(KEY) if isinstance(meta, dict) else None
    if not isinstance(told, dict) or not isinstance(told.get("tool"), str):
        return None
    arguments = told.get("arguments", {})
    if (
        not isinstance(arguments, dict)
        or len(arguments) > MAX_ARGUMENTS
        or not all(map(_is_source, arguments.values()))
    ):
        return None
    return {"tool": told["tool"], "arguments": arguments}


def made_by(undo: dict | None, result: Any) -> dict | None:
    """Return the arguments that a result says, {name: value}; None if the declaration needs none of it."""
    wanted = {
        name: source["result"] for name, source in (undo or {}).get("arguments", {}).items() if "result" in source
    }
    if not wanted:
        return None
    content = _content(result)
    return {name: _at(content, pointer) for name, pointer in wanted.items()}


def _is_source(source: Any) -> bool:
    return isinstance(source, dict) and len(source) == 1 and next(iter(source)) in SOURCES


def _content(result: Any) -> Any:
    if not isinstance(result, dict):
        return None
    if "structuredContent" in result:
        return result["structuredContent"]
    texts = [each.get("text") for each in result.get("content") or () if isinstance(each, dict)]
    try:
        return json_text.loads(texts[0]) if len(texts) == 1 and isinstance(texts[0], str) else None
    except (ValueError, RecursionError):
        return None


def _at(content: Any, pointer: Any) -> Any:
    """Return what a JSON pointer leads to, if it is a text, a number or a truth value; else None."""
    if not isinstance(pointer, str) or (pointer and not pointer.startswith("/")):
        return None
    for word in pointer.split("/")[1:]:
        name = word.replace("~1", "/").replace("~0", "~")
        if isinstance(content, dict):
            content = content.get(name)
        elif isinstance(content, list) and name.isdecimal() and int(name) < len(content):
            content = content[int(name)]
        else:
            return None
    return content if isinstance(content, str | int | float | bool) else None
