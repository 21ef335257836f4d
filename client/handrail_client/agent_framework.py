"""Microsoft Agent Framework: an agent whose functions ask, and which waits for the answers.

agent = Agent(client, tools=[…], middleware=middleware(desk, session="ticket-41"))
result = await agent.run("Mend the build")

A call waits in the program. One that was killed finds its questions again when it goes on with the same session and
history.
"""

import asyncio
from collections.abc import Iterable, Iterator, Mapping

from agent_framework import ChatMiddleware, Content, FunctionMiddleware, MiddlewareFailure
from pydantic_core import to_jsonable_python

from handrail_client.conversation import Conversation, Message
from handrail_client.desk import Handrail
from handrail_client.errors import HandrailError
from handrail_client.gated_calls import Gate, edit_notice


def middleware(
    desk: Handrail, session: str, *, names: Mapping[str, str] | None = None, ungated: Iterable[str] = ()
) -> list:
    """Return the middleware of an agent. `session` names the conversation.

    Every function asks, but for those in `ungated`; `names` are Handrail's names of functions. List it last, so that
    nothing changes a call after it was approved. Tools that a model's provider runs are not held.
    """
    gate = Gate(desk, names or {}, frozenset(ungated))
    return [_ConversationMiddleware(Conversation(gate, session)), _GateMiddleware(gate, session)]


class _GateMiddleware(FunctionMiddleware):
    """Around each call of a function."""

    def __init__(self, gate: Gate, session: str):
        self._gate, self._session = gate, session

    async def process(self, context, call_next):
        name = context.function.name
        if name in self._gate.ungated:
            await call_next()
            return
        # The framework has made dates, sets and the like of a function's arguments.
        arguments = to_jsonable_python(dict(context.arguments))
        call = self._gate.call(name, arguments, self._session, context.metadata["call_id"])
        try:
            used = await self._gate.waited(call)
        except HandrailError as error:  # any other exception would be a function's result, with the run going on
            raise MiddlewareFailure(f"{name} did not run: {error}") from error
        if isinstance(used, str):
            context.result = used
            return
        if used.is_edited:
            context.arguments = used.arguments
        await self._gate.reported(used, call_next())
        if notice := edit_notice(used):
            result = context.result
            is_contents = isinstance(result, list)
            context.result = [Content.from_text(notice), *result] if is_contents else f"{notice}\n{result}"


class _ConversationMiddleware(ChatMiddleware):
    """Around each turn of the model: posts the conversation before and after it."""

    def __init__(self, conversation: Conversation):
        self._conversation = conversation

    async def process(self, context, call_next):
        read = list(context.messages)

        async def answered(response):
            await self._post([*read, *response.messages])
            return response

        await self._post(read)
        if context.stream:
            context.stream_result_hooks.append(answered)
            await call_next()
        else:
            await call_next()
            await answered(context.result)

    async def _post(self, history: list):
        await asyncio.to_thread(self._conversation.post, messages_of(history))


def messages_of(history: list) -> Iterator[Message]:
    """Yield the messages of a run as the desk has them."""
    for message in history:
        for part in message.contents:
            match part.type:
                case "text" if part.text:
                    yield Message(str(message.role), part.text)
                case "text_reasoning" if part.text:
                    yield Message("assistant", part.text, "thinking")
                case "function_call":
                    arguments = part.parse_arguments() or {}
                    yield Message("assistant", arguments, "call", tool=part.name, call_id=part.call_id)
                case "function_result":
                    yield Message("tool", part.result or "", "result", call_id=part.call_id, ok=not part.exception)
