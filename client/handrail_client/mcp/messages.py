"""JSON-RPC messages: read so strictly that no server reads another call into the same bytes, and made."""

import json
import math
from typing import Any

PARSE_ERROR, INVALID_REQUEST, NO_METHOD, INVALID_PARAMS = -32700, -32600, -32601, -32602
# Some parsers match keys without case: a message with `Method` must not get past one that looks for `method`.
KEYS = ("jsonrpc", "id", "method", "params", "result", "error")
CALL_KEYS = ("name", "arguments")


class Unreadable(ValueError):
    """A message that two parsers could read differently, or none; `code` is JSON-RPC's."""

    def __init__(self, code: int, words: str):
        super().__init__(words)
        self.code = code


def read_line(line: bytes) -> Any:
    """Return the message or batch of one line. Unreadable if its reading is not certain."""
    text = line.strip(b" \t\r\n")
    if b"\r" in text or b"\n" in text:
        raise Unreadable(PARSE_ERROR, "The message has a line break in it, at which a server could cut it in two.")
    return read(text)


def read(text: bytes) -> Any:
    """Return the message or batch of a body. Unreadable if its reading is not certain."""
    try:
        found = json.loads(
            text.decode(), object_pairs_hook=_no_duplicates, parse_constant=_no_constant, parse_float=_finite
        )
    except Unreadable:
        raise
    except (ValueError, RecursionError) as error:
        raise Unreadable(PARSE_ERROR, f"The message is no JSON: {str(error)[:200]}") from None
    for message in found if isinstance(found, list) else [found]:
        _check(message)
    if found == []:
        raise Unreadable(INVALID_REQUEST, "The batch is empty.")
    return found


def _no_duplicates(pairs: list) -> dict:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise Unreadable(INVALID_REQUEST, "A key stands twice in one object, so what it says is not certain.")
    return found


def _no_constant(name: str):
    raise Unreadable(PARSE_ERROR, f"{name} is no JSON.")


def _finite(text: str) -> float:
    value = float(text)
    return value if math.isfinite(value) else _no_constant(text[:40])


def _check(message: Any):
    if not isinstance(message, dict):
        raise Unreadable(INVALID_REQUEST, "A message must be a JSON object.")
    params = message.get("params")
    is_call = message.get("method") == "tools/call" and isinstance(params, dict)
    for kept, found in ((KEYS, message), (CALL_KEYS, params if is_call else {})):
        if odd := next((key for key in found if key not in kept and key.casefold() in kept), None):
            raise Unreadable(INVALID_REQUEST, f"The key {odd!r} could be read as {odd.casefold()!r}.")


def is_call(message: Any) -> bool:
    return isinstance(message, dict) and message.get("method") == "tools/call"


def key_of(message_id: Any) -> str:
    """Return what ids of any JSON type are compared by: 1 and "1" are two."""
    return json.dumps(message_id, sort_keys=True)


def line_of(message: Any) -> bytes:
    return json.dumps(message, separators=(",", ":")).encode() + b"\n"


def result(message_id: Any, told: dict) -> dict:
    return {"jsonrpc": "2.0", "id": message_id, "result": told}


def said(message_id: Any, words: str, *, is_error: bool = False) -> dict:
    """Return the result of a tool call that is a text."""
    return result(message_id, {"content": [{"type": "text", "text": words}], "isError": is_error})


def error(message_id: Any, code: int, words: str) -> dict:
    return {"jsonrpc": "2.0", "id": message_id, "error": {"code": code, "message": words}}


def progress(token: Any, step: int, words: str) -> dict:
    # Progress must increase with each notification, and the server's own may begin at 0, so the gate's stays below 0.
    told = {"progressToken": token, "progress": step * 1e-6 - 1, "message": words}
    return {"jsonrpc": "2.0", "method": "notifications/progress", "params": told}


def progress_token(message: dict) -> Any:
    """Return the token under which the client wants to hear of progress, or None."""
    params = message.get("params")
    meta = params.get("_meta") if isinstance(params, dict) else None
    token = meta.get("progressToken") if isinstance(meta, dict) else None
    return token if isinstance(token, (str, int)) else None
