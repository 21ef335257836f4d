"""Requests of an MCP server to its client during a tool call: an answer passes only while the desk lets the call go on.

With 2026-07-28 a client sends the call again; up to 2025-11-25 it answers a request of the server
(`elicitation/create`, `sampling/createMessage`, …), and the call goes on by that.
"""

import threading
from collections.abc import Iterable
from typing import Any

from handrail_client.desk import Handrail
from handrail_client.errors import HandrailError, NotAllowed
from handrail_client.mcp import messages
from handrail_client.mcp.held_call import NOT_ASKED
from handrail_client.mcp.questions import ToolCall

MAX_OPEN = 10_000  # requests of servers that nobody has answered


def is_request(message: Any) -> bool:
    return isinstance(message, dict) and "method" in message and "id" in message


def is_answer(message: Any) -> bool:
    return isinstance(message, dict) and "method" not in message and "id" in message


class AskedBack:
    """The requests of servers that clients have not answered, each with the calls that ran when it came."""

    def __init__(self, desk: Handrail):
        self._desk = desk
        self._lock = threading.Lock()
        self._asked: dict[tuple[str, str], list[ToolCall]] = {}

    def note(self, session: str, message: Any, calls: Iterable[ToolCall]):
        """Remember which calls the server may have asked for."""
        if is_request(message):
            with self._lock:
                self._asked[session, messages.key_of(message["id"])] = list(calls)
                if len(self._asked) > MAX_OPEN:
                    del self._asked[next(iter(self._asked))]

    def checked(self, session: str, message: Any, running: Iterable[ToolCall]) -> Any:
        """Return the client's message as it may be passed on: an answer by which no call may go on is an error.

        Where the request was not seen, any call that runs may go on by its answer.
        """
        if isinstance(message, list):
            return [self.checked(session, each, running) for each in message]
        if not is_answer(message):
            return message
        with self._lock:
            calls = self._asked.pop((session, messages.key_of(message["id"])), None)
        for call in running if calls is None else calls:
            if words := self._why_not(call):
                return messages.error(message["id"], messages.INVALID_REQUEST, words)
        return message

    def _why_not(self, call: ToolCall) -> str:
        try:
            self._desk.go_on(call.used)
        except HandrailError as error:
            return str(error) if isinstance(error, NotAllowed) else NOT_ASKED.format(error)
        return ""
