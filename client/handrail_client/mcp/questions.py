"""What the gate asks the desk of a call, over pipes and over HTTP, and the calls whose tool has asked its user back."""

import itertools
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from handrail_client.actions import Action
from handrail_client.desk import Handrail
from handrail_client.gated_calls import edit_notice
from handrail_client.mcp import messages, protocol
from handrail_client.mcp.declared_undo import declared, made_by
from handrail_client.mcp.held_call import Continued, HeldCall
from handrail_client.mcp.identity import Definition, Server

NO_NAME = "tools/call needs the name of a tool, and arguments that are an object."
NO_ROUND = (
    "The gate knows no approved call that waits for this answer (it may have been restarted, or the call is over), so "
    "nothing was made. Make the call again from its beginning, without inputResponses and requestState."
)
LEFT = "The tool asked its user something, and the client did not go on with the call."
MAX_ROUNDS = 1000


@dataclass
class ToolCall:
    """A `tools/call` of a client, from its message to its last result. `owner` is whose it is, where that is known."""

    message: dict
    line: bytes
    owner: str = ""
    definition: Definition = field(default_factory=Definition)
    used: Action | None = None  # the action whose approval it uses

    @property
    def name(self) -> str:
        return self.message["params"]["name"]

    @property
    def arguments(self) -> dict:
        """Those that the client sent."""
        given = self.message["params"].get("arguments")
        return {} if given is None else given

    @property
    def is_well_formed(self) -> bool:
        name = protocol.params_of(self.message).get("name")
        return "id" in self.message and isinstance(name, str) and bool(name) and isinstance(self.arguments, dict)

    def begin_anew(self):
        """Leave answers out that no approved call waits for, and that nobody would see: the tool asks again."""
        kept = {key: each for key, each in self.message["params"].items() if key not in protocol.OF_A_RETRY}
        self.message = self.message | {"params": kept}
        self.line = messages.line_of(self.message)

    @property
    def is_changed(self) -> bool:
        """Whether what runs is not what the client sent."""
        return self.used.is_edited or messages.key_of(self.used.arguments) != messages.key_of(self.arguments)

    @property
    def message_to_server(self) -> dict:
        return self.message | {"params": self.message["params"] | {"arguments": self.used.arguments}}

    @property
    def to_server(self) -> bytes:
        """The client's own bytes, or the same message with the arguments that were approved."""
        return messages.line_of(self.message_to_server) if self.is_changed else self.line

    def teller(self, send: Callable[[dict], None]) -> Callable[[Action], None]:
        """Return what tells a client that asked for progress that its call waits."""
        token, steps = messages.progress_token(self.message), itertools.count(1)

        def tell(action: Action):
            if token is not None:
                words = f"Waits for approval as {action.name}: {action.url}"
                send(messages.progress(token, next(steps), words))

        return tell

    def refusal(self, words: str | None) -> dict:
        """Return why the call is not made; None: it goes on with none that was approved."""
        if words is None:
            return messages.error(self.message["id"], messages.INVALID_PARAMS, NO_ROUND)
        return messages.text_result(self.message, words, is_error=True)


class Reports:
    """Tells the desk how calls ended, each in a thread of its own, as the desk may be slow or away."""

    def __init__(self, desk: Handrail):
        self._desk, self._telling = desk, []

    def tell(self, action: Action, succeeded: bool, note: str = "", made: dict | None = None):
        more = {"made": made} if made else {}
        how = {"args": (action, succeeded, note), "kwargs": more, "daemon": True}
        thread = threading.Thread(target=self._desk.report_quietly, **how)
        thread.start()
        self._telling = [each for each in self._telling if each.is_alive()] + [thread]

    def wait(self, timeout: float):
        for thread in list(self._telling):
            thread.join(timeout)


class Questions:
    """What the gate asks the desk of the calls, and the calls that go on once they were approved.

    A tool may ask its user something: then the client sends the call again with the answer. It is one call, so the
    approval that was used covers it to its end, with what a person edited.
    """

    def __init__(self, desk: Handrail, server: Server, session: str):
        self._desk, self._server, self._session = desk, server, session
        self.reports = Reports(desk)
        self._lock = threading.Lock()
        self._waiting: dict[str, list[ToolCall]] = {}

    def of(self, call: ToolCall, describe: Callable[[], Definition]) -> HeldCall | None:
        """Return the question that the call is at the desk; None if it goes on with none that was approved."""
        if protocol.is_retry(call.message):
            question = self._next_round(call)
            if question or "requestState" in call.message["params"]:
                return question
            call.begin_anew()
        call.definition = describe()
        served = {"runs": self._server.runs, "sha256": self._server.sha256, "tool_sha256": call.definition.sha256}
        served |= {"undo": undo} if (undo := declared(call.definition.told)) else {}
        more = {"mcp": served, "input_schema": call.definition.schema, "call_id": str(call.message["id"])[:200]}
        more |= {"session": self._session} if self._session else {}
        return HeldCall(self._desk, self._server.tool(call.name), call.arguments, **more)

    def ended(self, call: ToolCall, message: dict) -> dict | None:
        """Take the server's answer to a call: keep it for its next round, or report its end.

        Return the answer with the notice of an edit, None if it goes to the client as it is.
        """
        result = message.get("result")
        kind = protocol.kind_of(result)
        if kind == protocol.INPUT_REQUIRED:
            self._keep(_key(call, result.get("requestState")), call)
        elif kind == protocol.COMPLETE:
            is_good = isinstance(result, dict) and not result.get("isError")
            words = "" if is_good else "The server answered with an error."
            made = made_by(declared(call.definition.told), result) if is_good else None
            self.reports.tell(call.used, is_good, words, made)
        if kind != protocol.COMPLETE:
            return None
        return messages.with_notice(message, edit_notice(call.used), in_structure=call.definition.takes_a_note)

    def _next_round(self, call: ToolCall) -> HeldCall | None:
        key = _key(call, protocol.params_of(call.message).get("requestState"))
        with self._lock:
            found = self._waiting.get(key, [])
            # With equal calls of which one was edited, nobody knows which one the answer is for.
            if not found or len({messages.key_of(each.used.arguments) for each in found}) > 1:
                return None
            before = found.pop(0)
            if not found:
                del self._waiting[key]
        call.definition = before.definition
        return Continued(self._desk, before.used, lambda: self._keep(key, before))

    def give_up(self):
        """Report the calls that nobody went on with."""
        with self._lock:
            left, self._waiting = self._waiting, {}
        for call in itertools.chain.from_iterable(left.values()):
            self.reports.tell(call.used, False, LEFT)

    def _keep(self, key: str, call: ToolCall):
        with self._lock:
            self._waiting.setdefault(key, []).append(call)
            oldest = self._waiting.pop(next(iter(self._waiting))) if len(self._waiting) > MAX_ROUNDS else []
        for each in oldest:
            self.reports.tell(each.used, False, LEFT)


def _key(call: ToolCall, state: Any) -> str:
    return messages.key_of([call.owner, call.name, call.arguments, state])
