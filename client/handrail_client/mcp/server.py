"""Handrail as an MCP server: ask for permission, and workspaces, over standard input and output."""

import itertools
import json
import sys
import threading
from collections.abc import Callable
from typing import Any

from handrail_client.actions import Action
from handrail_client.desk import Handrail
from handrail_client.errors import HandrailError
from handrail_client.mcp import messages
from handrail_client.mcp.held_call import HeldCall
from handrail_client.mcp.stdio_gate import Pipe, lines_of
from handrail_client.mcp.tools import TOOLS, run_tool

INFO = {"name": "handrail", "version": "0.1.0"}
VERSIONS = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")  # of the protocol, the newest first
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
            self._request(message["id"], message["method"], message.get("params") or {}, message)

    def close(self):
        with self._lock:
            asking = list(self._asking.values())
        for call in asking:
            call.withdraw(wait=True)

    def _answer(self, message: dict):
        self._send(messages.line_of(message))

    def _request(self, message_id: Any, method: str, params: Any, message: dict):
        match method:
            case _ if not isinstance(params, dict):
                self._answer(messages.error(message_id, messages.INVALID_PARAMS, "params must be an object."))
            case "initialize":
                asked = params.get("protocolVersion")
                version = asked if asked in VERSIONS else VERSIONS[0]
                told = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": INFO}
                self._answer(messages.result(message_id, told))
            case "ping":
                self._answer(messages.result(message_id, {}))
            case "tools/list":
                self._answer(messages.result(message_id, {"tools": TOOLS}))
            case "tools/call":
                threading.Thread(target=self._call, args=(message_id, params, message), daemon=True).start()
            case _:
                self._answer(messages.error(message_id, messages.NO_METHOD, f"Handrail has no {method[:80]}."))

    def _call(self, message_id: Any, params: dict, message: dict):
        name, given = params.get("name"), params.get("arguments") or {}
        try:
            if name == ASK:
                self._ask(message_id, given, message)
                return
            words, is_error = run_tool(self._desk, name, given), False
        except (HandrailError, ValueError, TypeError, KeyError, OSError) as error:
            words, is_error = str(error), True
        if not self._is_cancelled(message_id):
            self._answer(messages.said(message_id, words, is_error=is_error))

    def _ask(self, message_id: Any, given: Any, message: dict):
        """Ask, and answer as Claude Code's --permission-prompt-tool does: with one text, and nothing beside it."""
        tool, wanted = (given.get("tool_name"), given.get("input")) if isinstance(given, dict) else (None, None)
        if not isinstance(tool, str) or not isinstance(wanted, dict):
            raise ValueError("ask_permission needs tool_name, a text, and input, an object.")
        more = {"call_id": str(given.get("tool_use_id") or "")[:200], "reasoning": str(given.get("reason") or "")}
        key, call = messages.key_of(message_id), HeldCall(self._desk, tool, wanted, **more)
        with self._lock:
            self._asking[key] = call
        if self._is_cancelled(message_id):
            call.withdraw()

        def allow(used: Action):
            said = {"behavior": "allow", "updatedInput": used.arguments}
            self._answer(messages.said(message_id, json.dumps(said)))

        refused = call.settle(allow, self._teller(message))
        with self._lock:
            del self._asking[key]
        if refused is not None:
            self._answer(messages.said(message_id, json.dumps({"behavior": "deny", "message": refused})))

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
