"""The common part of the framework adapters: a tool call is one action, whose approval is used when the tool runs."""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from handrail_client import json_text
from handrail_client.actions import Action, bounded
from handrail_client.desk import Handrail
from handrail_client.errors import NotAllowed

# Seconds that a thread waits at a time: a program that is interrupted ends after them, and its question stays open.
WAIT_S = 5
EDITED = "Note: a person edited this call before it ran; that was intended. What ran instead: {}"


@dataclass(frozen=True)
class Call:
    """One tool call of a model. The same call of the same session is the same action, in whichever process."""

    tool: str
    arguments: dict[str, Any]
    session: str
    call_id: str

    @property
    def key(self) -> str:
        named = [self.session, self.call_id, self.tool, self.arguments]
        return hashlib.sha256(json_text.dumps(named, sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True)
class Gate:
    """Puts calls to a desk. `names` are Handrail's names of tools that the framework calls otherwise."""

    desk: Handrail
    names: Mapping[str, str] = field(default_factory=dict)
    ungated: frozenset[str] = frozenset()

    def name_of(self, tool: str) -> str:
        return self.names.get(tool, tool)

    def call(self, tool: str, arguments: dict, session: str, call_id: str) -> Call:
        return Call(self.name_of(tool), arguments, session, call_id)

    def ask(self, call: Call) -> Action:
        """Submit the call, or find the action that it has."""
        where = {"session": bounded(call.session), "call_id": bounded(call.call_id)}
        return self.desk.ask(call.tool, call.arguments, key=call.key, **where)

    def used(self, call: Call) -> Action | str:
        """Use the call's approval; return it, or the words for the model why the call does not run."""
        try:
            return self.desk.use(self.ask(call))
        except NotAllowed as no:
            return str(no)

    async def waited(self, call: Call) -> Action | str:
        """Wait for the answer to the call, however long that takes, and use it, as `used` does."""
        action = await asyncio.to_thread(self.ask, call)
        while action.status == "pending":
            action = await asyncio.to_thread(self.desk.wait, action, timeout=WAIT_S)
        return await asyncio.to_thread(self.used, call)

    async def reported(
        self, used: Action, running: Awaitable, end: Callable[[Any], tuple[bool, str]] = lambda result: (True, "")
    ) -> Any:
        """Return the result of a call that runs, and report how it ended.

        `end` says of a result whether the call succeeded, and a note: some frameworks return their tools' errors.
        """
        try:
            result = await running
        except BaseException as error:
            await asyncio.to_thread(self.desk.report_quietly, used, False, repr(error))
            raise
        await asyncio.to_thread(self.desk.report_quietly, used, *end(result))
        return result


def edit_notice(action: Action) -> str:
    """Return the sentence that tells the model of an edit, or ""."""
    if not action.is_edited:
        return ""
    said = f" {action.comment}" if action.comment else ""
    return EDITED.format(json_text.dumps(action.arguments, ensure_ascii=False)) + said
