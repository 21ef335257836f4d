"""JSON-RPC messages: read so strictly that no server reads another call into the same bytes, and made."""

import re
import unicodedata
from typing import Any

from handrail_client import json_text
from handrail_client.mcp import protocol

PARSE_ERROR, INVALID_REQUEST, NO_METHOD, INVALID_PARAMS = -32700, -32600, -32601, -32602
KEYS = ("jsonrpc", "id", "method", "params", "result", "error")
NOTE = "handrail_note"
CALL_KEYS = ("name", "arguments", *protocol.OF_A_RETRY)
METHODS = (
    "initialize", "ping", "server/discover", "subscriptions/listen", "logging/setLevel", "completion/complete",
    "tools/list", "tools/call", "prompts/list", "prompts/get", "resources/list", "resources/templates/list",
    "resources/read", "resources/subscribe", "resources/unsubscribe", "roots/list", "sampling/createMessage",
    "elicitation/create", "tasks/get", "tasks/update", "tasks/result", "tasks/list", "tasks/cancel",
    "notifications/initialized", "notifications/cancelled", "notifications/progress", "notifications/message",
    "notifications/tools/list_changed", "notifications/prompts/list_changed", "notifications/resources/list_changed",
    "notifications/resources/updated", "notifications/roots/list_changed", "notifications/elicitation/complete",
    "notifications/tasks/status", "notifications/subscriptions/acknowledged",
)  # fmt: skip


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
        found = json_text.loads(text.decode(), object_pairs_hook=_no_duplicates, parse_constant=_no_constant)
    except Unreadable:
        raise
    except json_text.TooLarge as error:
        raise Unreadable(PARSE_ERROR, str(error)) from None
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


def _check(message: Any):
    if not isinstance(message, dict):
        raise Unreadable(INVALID_REQUEST, "A message must be a JSON object.")
    _check_words(message, KEYS, "key")
    if "method" in message:
        method = message["method"]
        if not isinstance(method, str):
            raise Unreadable(INVALID_REQUEST, "The method must be a text.")
        _check_words([method], METHODS, "method")
        if not re.fullmatch(r"[!-~]+", method):
            raise Unreadable(INVALID_REQUEST, f"The method {method[:80]!r} has characters that no method has.")
    if is_call(message):
        _check_words(protocol.params_of(message), CALL_KEYS, "key")


def _check_words(found, known: tuple, what: str):
    """Raise Unreadable for a word that a lenient server could take for a known one: in other letters, with a blank."""
    meant = {_folded(word): word for word in known}
    for word in found:
        if word not in known and (near := meant.get(_folded(word))):
            raise Unreadable(INVALID_REQUEST, f"The {what} {word[:80]!r} could be read as {near!r}.")


def _folded(word: str) -> str:
    """Return the letters and digits alone, without case: what is left of a word when parsers are lenient with it."""
    return "".join(filter(str.isalnum, unicodedata.normalize("NFKC", word).casefold()))


def is_call(message: Any) -> bool:
    return isinstance(message, dict) and message.get("method") == "tools/call"


def key_of(message_id: Any) -> str:
    """Return what ids of any JSON type are compared by: 1 and "1" are two."""
    return json_text.dumps(message_id, sort_keys=True)


def line_of(message: Any) -> bytes:
    return json_text.dumps(message, separators=(",", ":")).encode() + b"\n"


def result(message_id: Any, told: dict) -> dict:
    return {"jsonrpc": "2.0", "id": message_id, "result": told}


def text_result(call: dict, words: str, *, is_error: bool = False) -> dict:
    """Return the result of a tool call that is a text."""
    told = {"content": [{"type": "text", "text": words}], "isError": is_error}
    return result(call["id"], protocol.complete(call, told))


def error(message_id: Any, code: int, words: str, data: dict | None = None) -> dict:
    told = {"code": code, "message": words} | ({} if data is None else {"data": data})
    return {"jsonrpc": "2.0", "id": message_id, "error": told}


def with_notice(message: dict, notice: str, *, in_structure: bool) -> dict | None:
    """Return the answer with the notice of an edit as its first text; None if there is none, or it has no texts.

    Some clients, Claude Code for one, show their model the structured result alone: it gets the notice too if it can.
    """
    found = message.get("result")
    if not notice or not isinstance(found, dict) or not isinstance(found.get("content"), list):
        return None
    told = {"content": [{"type": "text", "text": notice}, *found["content"]]}
    structure = found.get("structuredContent")
    if in_structure and isinstance(structure, dict):
        told["structuredContent"] = {NOTE: notice} | structure
    return message | {"result": found | told}


def progress(token: Any, step: int, words: str) -> dict:
    # Progress must increase with each notification, and the server's own may begin at 0, so the gate's stays below 0.
    told = {"progressToken": token, "progress": step * 1e-6 - 1, "message": words}
    return {"jsonrpc": "2.0", "method": "notifications/progress", "params": told}


def progress_token(message: dict) -> Any:
    """Return the token under which the client wants to hear of progress, or None."""
    token = protocol.meta_of(message).get("progressToken")
    return token if isinstance(token, (str, int)) else None
