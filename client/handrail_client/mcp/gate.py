"""The gate: everything between a client and its server as it is, but `tools/call`, which the desk is asked about.

It knows nothing of pipes or HTTP: `from_client` and `from_server` take lines, and `to_client` and `to_server` get some.
"""

import itertools
import sys
import threading
import uuid
from collections.abc import Callable
from typing import Any

from handrail_client import json_text
from handrail_client.actions import Action
from handrail_client.desk import Handrail
from handrail_client.mcp import messages, protocol
from handrail_client.mcp.asked_back import AskedBack, is_answer
from handrail_client.mcp.held_call import HeldCall
from handrail_client.mcp.identity import Definition, Server
from handrail_client.mcp.questions import NO_NAME, Questions, ToolCall

LIST_TIMEOUT = 30.0  # seconds for the server to describe its tools
BATCHED = "A tool call inside a batch can't be held for its approval. Send it as a message of its own."
TAKEN = "A call with this id waits already."
ENDED = "The server ended before it answered."

Write = Callable[[bytes], None]


class Gate:
    """One client and one server. Calls are held in threads of their own, so none waits for another."""

    def __init__(self, desk: Handrail, server: Server, *, to_client: Write, to_server: Write, session: str = ""):
        self._to_client, self._to_server = to_client, to_server
        self._lock = threading.Lock()
        self._held: dict[str, HeldCall] = {}
        self._running: dict[str, ToolCall] = {}  # calls that the server has, by the key of their id
        self._own: dict[str, tuple[threading.Event, list]] = {}  # our own requests, and their answers
        self._numbers = itertools.count(1)
        self._named = f"handrail-{uuid.uuid4()}"
        self._questions = Questions(desk, server, session)
        self._asked_back = AskedBack(desk)

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
        elif is_answer(message):
            self._pass_on(message, line)
        elif not self._is_withdrawal(message) and not self._is_taken(message):
            self._to_server(line)

    def _pass_on(self, told: dict | list, line: bytes):
        """Pass answers on once the desk lets the calls go on that wait for them; the desk may be slow."""
        with self._lock:
            running = list(self._running.values())

        def ask():
            checked = self._asked_back.checked("", told, running)
            self._to_server(line if checked == told else messages.line_of(checked))

        threading.Thread(target=ask, daemon=True).start()

    def _batch(self, batch: list, line: bytes):
        if any(map(messages.is_call, batch)):
            wait = [message["id"] for message in batch if "method" in message and "id" in message]
            refused = [messages.error(each, messages.INVALID_REQUEST, BATCHED) for each in wait]
            self._to_client(messages.line_of(refused or messages.error(None, messages.INVALID_REQUEST, BATCHED)))
            return
        kept = [message for message in batch if not self._is_withdrawal(message)]
        line = line if len(kept) == len(batch) else messages.line_of(kept)
        if any(map(is_answer, kept)):
            self._pass_on(kept, line)
        elif kept:
            self._to_server(line)

    def _is_withdrawal(self, message: dict) -> bool:
        """Withdraw the held call that the message cancels; False if it cancels none, or one that the server has."""
        if message.get("method") != "notifications/cancelled":
            return False
        key = messages.key_of(protocol.params_of(message).get("requestId"))
        with self._lock:
            held = self._held.get(key)
        if held and held.withdraw():
            return True
        with self._lock:
            call = self._running.pop(key, None)
        if call:
            self._questions.reports.tell(call.used, False, "The client cancelled the call while it ran.")
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

    # A call -----------------------------------------------------------------------------------------------------------

    def _call(self, message: dict, line: bytes):
        call = ToolCall(message, line)
        if "id" not in message:
            print("handrail: a tool call without an id was dropped: nobody waits for its answer", file=sys.stderr)
        elif not call.is_well_formed:
            self._to_client(messages.line_of(messages.error(message["id"], messages.INVALID_PARAMS, NO_NAME)))
        elif not self._is_taken(message):
            # It is held from here on: a cancellation that follows at once finds it.
            held = _Late()
            with self._lock:
                self._held[messages.key_of(message["id"])] = held
            threading.Thread(target=self._run_when_answered, args=(held, call), daemon=True).start()

    def _run_when_answered(self, held: "_Late", call: ToolCall):
        key = messages.key_of(call.message["id"])
        question = self._questions.of(call, lambda: self._definition(call))

        def run(used: Action):
            call.used = used
            with self._lock:
                self._running[key] = call
            self._to_server(call.to_server)

        def is_unchanged() -> bool:
            return self._definition(call).sha256 == call.definition.sha256

        refused = held.begin(question).settle(run, call.teller(self._tell), is_unchanged) if question else None
        with self._lock:
            del self._held[key]
        if refused is not None or question is None:
            self._tell(call.refusal(refused))

    def _tell(self, message: dict):
        self._to_client(messages.line_of(message))

    def _definition(self, call: ToolCall) -> Definition:
        """Ask the server how it describes the tool now. What stays unknown is part of the identity, too."""

        def page(params: dict) -> Any:
            return self._request("tools/list", protocol.params_like(call.message, params))

        return Definition.read(call.name, page)

    def _request(self, method: str, params: dict) -> Any:
        own = f"{self._named}-{next(self._numbers)}"
        done, answer = self._own[messages.key_of(own)] = (threading.Event(), [])
        self._to_server(messages.line_of({"jsonrpc": "2.0", "id": own, "method": method, "params": params}))
        done.wait(LIST_TIMEOUT)
        return answer[0] if answer else None

    # From the server --------------------------------------------------------------------------------------------------

    def from_server(self, line: bytes):
        """Pass a line on as it is; a result of an edited call says first that it was edited."""
        try:
            message = json_text.loads_as_written(line)
        except (ValueError, RecursionError):
            message = None
        for each in message if isinstance(message, list) else [message]:
            self._note_request(each)
        if is_answer(message):
            line = self._answered(message, line)
        elif isinstance(message, list):
            for each in filter(is_answer, message):
                self._answered(each, line)
        if line:
            self._to_client(line)

    def _note_request(self, message):
        with self._lock:
            running = list(self._running.values())
        self._asked_back.note("", message, running)

    def _answered(self, message: dict, line: bytes) -> bytes:
        """Note an answer; return the line for the client."""
        key = messages.key_of(message["id"])
        with self._lock:
            call, own = self._running.pop(key, None), self._own.pop(key, None)
        if own:
            own[1].append(message.get("result"))
            own[0].set()
            return b""
        told = self._questions.ended(call, message) if call else None
        return messages.line_of(told) if told else line

    # The end ----------------------------------------------------------------------------------------------------------

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
        for call in running:
            self._questions.reports.tell(call.used, False, ENDED)
        self._questions.give_up()
        self._questions.reports.wait(timeout)


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
