"""Handrail as an MCP server: ask for permission, and workspaces, over standard input and output."""

import itertools
import sys
import threading
from collections.abc import Callable
from typing import Any

from handrail_client import json_text
from handrail_client.actions import Action, bounded
from handrail_client.desk import Handrail
from handrail_client.errors import HandrailError
from handrail_client.mcp import messages, protocol
from handrail_client.mcp.held_call import HeldCall
from handrail_client.mcp.stdio_gate import Pipe, lines_of
from handrail_client.mcp.tools import TOOLS, run_tool

INFO = {"name": "handrail", "version": "0.1.0"}
CACHED = {"ttlMs": 3_600_000, "cacheScope": "public"}  # the tools are those of the program, for everybody
ASK = "ask_permission"


def serve(desk: Handrail):
    """Serve the client on standard input and output until it goes; withdraw what then still waits."""
    server = Server(desk, Pipe(sys.stdout.fileno(), lambda: None))
    for line in lines_of(sys.stdin.fileno()):
        server.take(line)
    server.close()


class Server:
    """Answers one client. Each call has a thread of its own, as people may take hours to answer."""

    def __init__(self, desk: Handrail, send: Callable[[bytes], None]):
        self._desk, self._send = desk, send
        self._lock = threading.Lock()
        self._asking: dict[str, HeldCall] = {}
        self._cancelled: set[str] = set()

    def take(self, line: bytes):
        if not line.strip():
            return
        try:
            message = messages.read_line(line)
        except messages.Unreadable as error:
            self._answer(messages.error(None, error.code, str(error)))
            return
        if isinstance(message, list):
            self._answer(messages.error(None, messages.INVALID_REQUEST, "Send each message by itself."))
        elif message.get("method") == "notifications/cancelled":
            self._cancel(message.get("params"))
        elif "id" in message and isinstance(message.get("method"), str):
            self._request(message)

    def close(self):
        with self._lock:
            asking = list(self._asking.values())
        for call in asking:
            call.withdraw(wait=True)

    def _answer(self, message: dict):
        self._send(messages.line_of(message))

    def _request(self, message: dict):
        message_id, method, params = message["id"], message["method"], message.get("params") or {}
        wrong = _malformed(message)
        if not isinstance(params, dict):
            self._answer(messages.error(message_id, messages.INVALID_PARAMS, "params must be an object."))
        elif wrong is not None:
            self._answer(wrong)
        elif method == "tools/call":
            threading.Thread(target=self._call, args=(message, params), daemon=True).start()
        elif (told := _protocol_result(message, method, params)) is not None:
            self._answer(messages.result(message_id, told))
        else:
            self._answer(messages.error(message_id, messages.NO_METHOD, f"Handrail has no {method[:80]}."))

    def _answer_text(self, message: dict, words: str, *, is_error: bool = False):
        told = messages.text_result(message, words, is_error=is_error)
        if protocol.has_meta(message):
            told |= {"result": _by_handrail(told["result"])}
        self._answer(told)

    def _call(self, message: dict, params: dict):
        name, given = params.get("name"), params.get("arguments") or {}
        try:
            if name == ASK:
                self._ask(message, given)
                return
            words, is_error = run_tool(self._desk, name, given), False
        except (HandrailError, ValueError, TypeError, KeyError, OSError) as error:
            words, is_error = str(error), True
        if not self._is_cancelled(message["id"]):
            self._answer_text(message, words, is_error=is_error)

    def _ask(self, message: dict, given: Any):
        """Ask, and answer as Claude Code's --permission-prompt-tool does: with one text, and nothing beside it."""
        tool, wanted = (given.get("tool_name"), given.get("input")) if isinstance(given, dict) else (None, None)
        if not isinstance(tool, str) or not isinstance(wanted, dict):
            raise ValueError("ask_permission needs tool_name, a text, and input, an object.")
        more = {"call_id": bounded(str(given.get("tool_use_id") or "")), "reasoning": str(given.get("reason") or "")}
        key, call = messages.key_of(message["id"]), HeldCall(self._desk, tool, wanted, **more)
        with self._lock:
            self._asking[key] = call
        if self._is_cancelled(message["id"]):
            call.withdraw()

        def allow(used: Action):
            said = {"behavior": "allow", "updatedInput": used.arguments}
            self._answer_text(message, json_text.dumps(said))

        refused = call.settle(allow, self._teller(message))
        with self._lock:
            del self._asking[key]
        if refused is not None:
            self._answer_text(message, json_text.dumps({"behavior": "deny", "message": refused}))

    def _teller(self, message: dict) -> Callable[[Action], None]:
        token, steps = messages.progress_token(message), itertools.count(1)

        def tell(action: Action):
            if token is not None:
                words = f"Waits for approval as {action.name}: {action.url}"
                self._answer(messages.progress(token, next(steps), words))

        return tell

    def _cancel(self, params: Any):
        key = messages.key_of(params.get("requestId") if isinstance(params, dict) else None)
        with self._lock:
            self._cancelled.add(key)
            call = self._asking.get(key)
        if call:
            call.withdraw()

    def _is_cancelled(self, message_id: Any) -> bool:
        with self._lock:
            return messages.key_of(message_id) in self._cancelled


def _malformed(message: dict) -> dict | None:
    """Return the error of a request whose `_meta` names no version that is spoken here, or is not whole."""
    meta = protocol.meta_of(message)
    version = meta.get(protocol.VERSION)
    if version is None and message["method"] != "server/discover":
        return None  # of the older generation, which greets
    if not isinstance(version, str) or not isinstance(meta.get(protocol.CAPABILITIES), dict):
        words = f"params._meta needs {protocol.VERSION}, a text, and {protocol.CAPABILITIES}, an object."
        return messages.error(message["id"], messages.INVALID_PARAMS, words)
    if version not in protocol.WITH_META:
        data = {"supported": list(protocol.WITH_META), "requested": version[:80]}
        return messages.error(message["id"], protocol.UNSUPPORTED_VERSION, "Unsupported protocol version", data)
    return None


def _protocol_result(message: dict, method: str, params: dict) -> dict | None:
    """Return the result of what asks nobody; None if the request's generation has no such method."""
    if protocol.has_meta(message):
        found = {
            "server/discover": {"supportedVersions": list(protocol.WITH_META), "capabilities": {"tools": {}}},
            "tools/list": {"tools": TOOLS},
        }.get(method)
        return None if found is None else _by_handrail(protocol.complete(message, found | CACHED))
    asked = params.get("protocolVersion")
    version = asked if asked in protocol.WITH_GREETING else protocol.WITH_GREETING[0]
    return {
        "initialize": {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": INFO},
        "ping": {},
        "tools/list": {"tools": TOOLS},
    }.get(method)


def _by_handrail(result: dict) -> dict:
    return result | {"_meta": {protocol.SERVER: INFO}}
