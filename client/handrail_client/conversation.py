"""The conversation of an agent's program, which an adapter posts to the desk message by message.

An adapter posts all that it knows of a session each time something was added. The desk keeps a message once, by its id,
so a program that was killed may post the same messages again when it goes on.
"""

import hashlib
import logging
import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from handrail_client import json_text
from handrail_client.actions import bounded
from handrail_client.errors import HandrailError, Refused
from handrail_client.gated_calls import Gate

logger = logging.getLogger("handrail_client")


@dataclass(frozen=True)
class Message:
    """A message with the fields of the API. A call and its result have the `call_id` of the action."""

    role: str
    content: str | dict | list
    kind: str = "text"
    id: str = ""  # the framework's own, where it has one
    tool: str = ""  # of a call: the framework's name of it
    call_id: str = ""
    ok: bool | None = None
    model: str = ""
    at: str | None = None  # ISO 8601 with its offset; without it, when it is posted

    @property
    def is_answer(self) -> bool:
        return (self.role, self.kind) == ("assistant", "text")


class Conversation:
    """One session of a program, posted while the program runs. No failure here reaches the agent."""

    def __init__(self, gate: Gate, session: str):
        self._gate, self._session = gate, session
        self._posted: set[str] = set()
        self._lock = threading.Lock()

    def post(self, messages: Iterable[Message]) -> bool:
        """Post the messages that the desk does not have, oldest first; return whether it has all of them now.

        `messages` is the whole conversation so far. What can't be posted now is posted with the next messages. Only
        after an answer, the last of a run as far as can be seen here, is the desk looked for, for as many seconds as
        its `grace`.
        """
        conversation = list(messages)
        patience = self._gate.desk.grace if conversation and conversation[-1].is_answer else 0
        tools = {message.call_id: message.tool for message in conversation if message.tool and message.call_id}
        with self._lock:
            for key, message in _with_keys(conversation):
                if key in self._posted:
                    continue
                tool = self._gate.name_of(message.tool or tools.get(message.call_id, ""))
                about = {"kind": message.kind, "call_id": bounded(message.call_id), "model": message.model}
                about |= {"id": key, "tool": tool, "ok": message.ok, "at": message.at}
                if not self._post(message, about, patience):
                    return False
                self._posted.add(key)
        return True

    def _post(self, message: Message, about: dict, patience: float) -> bool:
        """Post one message; return whether those after it may follow."""
        desk = self._gate.desk
        try:
            desk.persist(lambda: desk.sessions.post(self._session, message.role, message.content, **about), patience)
        except (Refused, ValueError, TypeError) as error:  # a content that is no JSON, such as NaN, is refused here
            logger.warning("A message of the session %s is not kept: %s", self._session, error)
        except HandrailError as error:
            logger.warning("Messages of the session %s wait: %s", self._session, error)
            return False
        return True


def _with_keys(messages: Iterable[Message]) -> Iterator[tuple[str, Message]]:
    """Yield each message with its id for the desk.

    It is made of the framework's own id, else of the text and of how often the same one came before: so it stays the
    same when a framework drops the beginning of a long conversation.
    """
    earlier: Counter[str] = Counter()
    for message in messages:
        same = message.id or json_text.dumps([message.role, message.call_id, message.content], default=str)
        text = f"{message.kind}:{earlier[same]}:{same}"
        if not message.id:
            earlier[same] += 1
        yield hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest(), message
