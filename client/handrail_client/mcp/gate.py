"""The gate: everything between a client and its server as it is, but `tools/call`, which the desk is asked about.

It knows nothing of pipes or HTTP: `from_client` and `from_server` take lines, and `to_client` and `to_server` get some.
"""

import itertools
import json
import sys
import threading
import uuid
from collections.abc import Callable
from typing import Any

from handrail_client.actions import Action
from handrail_client.desk import Handrail
from handrail_client.gated_calls import edit_notice
from handrail_client.mcp import messages
from handrail_client.mcp.held_call import HeldCall
from handrail_client.mcp.identity import Definitions, Server

LIST_TIMEOUT = 30.0  # seconds for the server to describe its tools
MAX_PAGES = 50
BATCHED = "A tool call inside a batch can't be held for its approval. Send it as a message of its own."
TAKEN = "A call with this id waits already."
NO_NAME = "tools/call needs the name of a tool, and arguments that are an object."
ENDED = "The server ended before it answered."

Write = Callable[[bytes], None]


class Gate:
    """One client and one server. Calls are held in threads of their own, so none waits for another."""

    def __init__(self, desk: Handrail, server: Server, *, to_client: Write, to_server: Write, session: str = ""):
        self._desk, self._server, self._session = desk, server, session
        self._to_client, self._to_server = to_client, to_server
        self._definitions = Definitions()
        self._lock = threading.Lock()
        self._held: dict[str, HeldCall] = {}
        self._running: dict[str, Action] = {}  # calls that the server has, by the key of their id
        self._lists: set[str] = set()  # requests of the client for the list of tools
        self._own: dict[str, tuple[threading.Event, list]] = {}  # our own requests, and their answers
        self._numbers = itertools.count(1)
        self._named = f"handrail-{uuid.uuid4()}"
        self._reports: list[threading.Thread] = []

    # From the client --------------------------------------------------------------------------------------------------

    def from_client(self, line: bytes):
        """Pass a line on, hold it, or answer it in the server's place."""
        if not line.strip():
            return
        try:
            message = messages.read_line(line)
        except messages.Unreadable as error:
            self._to_client(messages.line_of(messages.error(None, error.code, str(error))))
            return
        if isinstance(message, list):
            self._batch(message, line)
        elif messages.is_call(message):
            self._call(message, line)
        elif not self._is_withdrawal(message) and not self._is_taken(message):
            self._note_list(message)
            self._to_server(line)

    def _batch(self, batch: list, line: bytes):
        if any(map(messages.is_call, batch)):
            wait = [message["id"] for message in batch if "method" in message and "id" in message]
            refused = [messages.error(each, messages.INVALID_REQUEST, BATCHED) for each in wait]
            self._to_client(messages.line_of(refused or messages.error(None, messages.INVALID_REQUEST, BATCHED)))
            return
        kept = [message for message in batch if not self._is_withdrawal(message)]
        batch, line = kept, line if len(kept) == len(batch) else messages.line_of(kept)
        for message in batch:
            self._note_list(message)
        if batch:
            self._to_server(line)

    def _is_withdrawal(self, message: dict) -> bool:
        """Withdraw the held call that the message cancels; False if it cancels none, or one that the server has."""
        if message.get("method") != "notifications/cancelled":
            return False
        params = message.get("params")
        key = messages.key_of(params.get("requestId") if isinstance(params, dict) else None)
        with self._lock:
            held = self._held.get(key)
        if held and held.withdraw():
            return True
        with self._lock:
            action = self._running.pop(key, None)
        if action:
            self._report(action, False, "The client cancelled the call while it ran.")
        return False

    def _is_taken(self, message: dict) -> bool:
        """Refuse a request with the id of a call that waits or runs."""
        if "method" not in message or "id" not in message:
            return False
        key = messages.key_of(message["id"])
        with self._lock:
            taken = key in self._held or key in self._running
        if taken:
            self._to_client(messages.line_of(messages.error(message["id"], messages.INVALID_REQUEST, TAKEN)))
        return taken

    def _note_list(self, message: dict):
        if message.get("method") == "tools/list" and "id" in message:
            with self._lock:
                self._lists.add(messages.key_of(message["id"]))

    # A call -----------------------------------------------------------------------------------------------------------

    def _call(self, message: dict, line: bytes):
        if "id" not in message:
            print("handrail: a tool call without an id was dropped: nobody waits for its answer", file=sys.stderr)
            return
        params = message.get("params")
        name, arguments = (params.get("name"), params.get("arguments")) if isinstance(params, dict) else (None, None)
        arguments = {} if arguments is None else arguments
        if not isinstance(name, str) or not name or not isinstance(arguments, dict):
            self._to_client(messages.line_of(messages.error(message["id"], messages.INVALID_PARAMS, NO_NAME)))
            return
        if self._is_taken(message):
            return
        # It is held from here on: a cancellation that follows at once finds it.
        held = _Late()
        with self._lock:
            self._held[messages.key_of(message["id"])] = held
        threading.Thread(target=self._hold, args=(held, message, name, arguments, line), daemon=True).start()

    def _hold(self, held: "_Late", message: dict, name: str, arguments: dict, line: bytes):
        key = messages.key_of(message["id"])
        if not self._definitions.knows(name):
            self._list_tools()
        seen = self._definitions.sha256(name)
        call = held.begin(HeldCall(self._desk, self._server.tool(name), arguments, **self._asked(message, name, seen)))

        def go(used: Action):
            with self._lock:
                self._running[key] = used
            same = not used.is_edited and used.arguments == arguments
            self._to_server(line if same else messages.line_of(_with(message, used.arguments)))

        refused = call.settle(go, self._teller(message), lambda: self._is_still(name, seen))
        with self._lock:
            del self._held[key]
        if refused is not None:
            self._to_client(messages.line_of(messages.said(message["id"], refused, is_error=True)))

    def _is_still(self, name: str, seen: str) -> bool:
        if not self._definitions.knows(name):
            self._list_tools()
        return self._definitions.sha256(name) == seen

    def _asked(self, message: dict, name: str, seen: str) -> dict:
        server = {"runs": self._server.runs, "sha256": self._server.sha256, "tool_sha256": seen}
        more = {"mcp": server, "input_schema": self._definitions.schema(name), "call_id": str(message["id"])[:200]}
        return more | ({"session": self._session} if self._session else {})

    def _teller(self, message: dict) -> Callable[[Action], None]:
        """Return what tells a client that asked for progress that its call waits."""
        token, steps = messages.progress_token(message), itertools.count(1)

        def tell(action: Action):
            if token is not None:
                words = f"Waits for approval as {action.name}: {action.url}"
                self._to_client(messages.line_of(messages.progress(token, next(steps), words)))

        return tell

    def _list_tools(self):
        """Ask the server itself how it describes its tools. What stays unknown is part of the identity, too."""
        cursor = None
        for _ in range(MAX_PAGES):
            result = self._request("tools/list", {"cursor": cursor} if cursor else {})
            self._definitions.learn(result)
            cursor = result.get("nextCursor") if isinstance(result, dict) else None
            if not isinstance(cursor, str):
                return

    def _request(self, method: str, params: dict) -> Any:
        own = f"{self._named}-{next(self._numbers)}"
        done, answer = self._own[messages.key_of(own)] = (threading.Event(), [])
        self._to_server(messages.line_of({"jsonrpc": "2.0", "id": own, "method": method, "params": params}))
        done.wait(LIST_TIMEOUT)
        return answer[0] if answer else None

    # From the server --------------------------------------------------------------------------------------------------

    def from_server(self, line: bytes):
        """Pass a line on as it is, and learn from it; a result of an edited call says first that it was edited."""
        try:
            message = json.loads(line)
        except (ValueError, RecursionError):
            message = None
        if isinstance(message, dict):
            if "id" in message and "method" not in message:
                line = self._answered(message, line)
            elif message.get("method") == "notifications/tools/list_changed":
                self._definitions.doubt()
        elif isinstance(message, list):
            for each in message:
                if isinstance(each, dict) and "id" in each and "method" not in each:
                    self._answered(each, line)
        if line:
            self._to_client(line)

    def _answered(self, message: dict, line: bytes) -> bytes:
        """Note an answer; return the line for the client."""
        key, result = messages.key_of(message["id"]), message.get("result")
        with self._lock:
            action, own = self._running.pop(key, None), self._own.pop(key, None)
            is_list = key in self._lists
            self._lists.discard(key)
        if own:
            own[1].append(result)
            own[0].set()
            return b""
        if is_list:
            self._definitions.learn(result)
        if action is None:
            return line
        is_good = isinstance(result, dict) and not result.get("isError")
        self._report(action, is_good, "" if is_good else "The server answered with an error.")
        return _with_notice(message, action) or line

    # The end ----------------------------------------------------------------------------------------------------------

    def _report(self, action: Action, succeeded: bool, note: str):
        thread = threading.Thread(target=self._desk.report_quietly, args=(action, succeeded, note), daemon=True)
        thread.start()
        self._reports = [each for each in self._reports if each.is_alive()] + [thread]

    def withdraw_all(self):
        """Withdraw what waits: the client has gone."""
        with self._lock:
            held = list(self._held.values())
        telling = [threading.Thread(target=each.withdraw, kwargs={"wait": True}, daemon=True) for each in held]
        for thread in telling:
            thread.start()
        for thread in telling:
            thread.join()

    def close(self, timeout: float):
        """Report the calls that the server had when it went, waiting up to `timeout` seconds for each report."""
        self.withdraw_all()
        with self._lock:
            running, self._running = list(self._running.values()), {}
        for action in running:
            self._report(action, False, ENDED)
        for thread in list(self._reports):
            thread.join(timeout)


class _Late:
    """Stands for a call whose question is not made yet, so that it can be withdrawn at once."""

    def __init__(self):
        self._lock, self._call, self._withdrawn = threading.Lock(), None, False

    def begin(self, call: HeldCall) -> HeldCall:
        with self._lock:
            self._call = call
            if self._withdrawn:
                call.withdraw()
        return call

    def withdraw(self, *, wait: bool = False) -> bool:
        with self._lock:
            self._withdrawn = True
            call = self._call
        return True if call is None else call.withdraw(wait=wait)


def _with(message: dict, arguments: dict) -> dict:
    return message | {"params": message["params"] | {"arguments": arguments}}


def _with_notice(message: dict, action: Action) -> bytes:
    """Return the answer with a first text that says what a person edited; b"" if nothing was, or it has no texts."""
    notice, result = edit_notice(action), message.get("result")
    if not notice or not isinstance(result, dict) or not isinstance(result.get("content"), list):
        return b""
    told = result | {"content": [{"type": "text", "text": notice}, *result["content"]]}
    return messages.line_of(message | {"result": told})
