"""Pydantic AI: an agent whose tools ask, and which waits for the answers.

agent = Agent(model, tools=[…], capabilities=[HandrailCapability(desk, session="ticket-41")])
result = await agent.run("Mend the build")

A call waits in the program. One that was killed finds its questions again when it goes on with the same session and
history.
"""

import asyncio
import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from pydantic import ValidationError
from pydantic_ai import ModelRetry, ToolReturn
from pydantic_ai.capabilities import AbstractCapability, CapabilityOrdering
from pydantic_ai.messages import (
    ModelMessage,
    RetryPromptPart,
    TextContent,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)

from handrail_client.actions import Action
from handrail_client.conversation import Conversation, Message
from handrail_client.desk import Handrail
from handrail_client.gated_calls import Gate, edit_notice


class HandrailCapability(AbstractCapability[Any]):
    """Asks the desk before each tool runs. `session` names the conversation.

    Every tool asks, but for those in `ungated`; `names` are Handrail's names of tools. Tools that a model's provider
    runs are not held. It places itself nearest to the tools; another capability's `before_tool_execute` comes after it
    all the same, and must not change arguments.
    """

    def __init__(
        self, desk: Handrail, session: str, *, names: Mapping[str, str] | None = None, ungated: Iterable[str] = ()
    ):
        self.gate, self.session = Gate(desk, names or {}, frozenset(ungated)), session
        self._conversation = Conversation(self.gate, session)

    def get_ordering(self) -> CapabilityOrdering:
        return CapabilityOrdering(position="innermost")

    async def wrap_tool_execute(self, ctx, *, call, tool_def, args, handler):
        """Run the tool with the arguments that were approved; else return why it does not run."""
        if call.tool_name in self.gate.ungated:
            return await handler(args)
        await self._post(ctx.messages)
        asked = self.gate.call(call.tool_name, call.args_as_dict(), self.session, call.tool_call_id)
        used = await self.gate.waited(asked)
        if isinstance(used, str):
            return used

        async def run():
            return await handler(await _validated(ctx, call, used) if used.is_edited else args)

        return _with_notice(await self.gate.reported(used, run()), used)

    async def before_model_request(self, ctx, request_context):
        await self._post(ctx.messages)
        return request_context

    async def after_run(self, ctx, *, result):
        await self._post(result.all_messages())
        return result

    async def _post(self, history: list[ModelMessage]):
        await asyncio.to_thread(self._conversation.post, list(messages_of(history)))


async def _validated(ctx, call: ToolCallPart, used: Action) -> dict:
    """Return the arguments of an edited call as its tool takes them. ModelRetry if it takes no such ones."""
    edited = dataclasses.replace(call, args=used.arguments)
    try:
        return (await ctx.tool_manager.validate_tool_call(edited, wrap_validation_errors=False)).validated_args
    except (ValidationError, ModelRetry) as error:
        words = f"A person edited {used.name} to arguments that {call.tool_name} does not take, so it did not run."
        raise ModelRetry(f"{words} {error}") from error


def _with_notice(result, used: Action):
    notice = edit_notice(used)
    if not notice:
        return result
    if isinstance(result, ToolReturn):
        return dataclasses.replace(result, return_value=_with_notice(result.return_value, used))
    return f"{notice}\n{result}" if isinstance(result, str) else [notice, result]


def messages_of(history: list[ModelMessage]) -> Iterator[Message]:
    """Yield the messages of a run's history as the desk has them."""
    for message in history:
        model = getattr(message, "model_name", None) or ""
        for part in message.parts:
            match part:
                case UserPromptPart():
                    yield Message("user", _text(part.content))
                case TextPart() if part.content:
                    yield Message("assistant", part.content, model=model)
                case ThinkingPart() if part.content:
                    yield Message("assistant", part.content, "thinking", model=model)
                case ToolCallPart():
                    about = {"tool": part.tool_name, "call_id": part.tool_call_id}
                    yield Message("assistant", part.args_as_dict(), "call", model=model, **about)
                case ToolReturnPart():
                    about = {"call_id": part.tool_call_id, "ok": part.outcome == "success"}
                    yield Message("tool", part.model_response_str(), "result", **about)
                case RetryPromptPart() if part.tool_name:
                    yield Message("tool", part.model_response(), "result", call_id=part.tool_call_id, ok=False)


def _text(content: str | Sequence) -> str:
    """Return the words of a prompt; of its other parts, such as pictures, their kind alone."""
    parts = [content] if isinstance(content, str) else content
    return "\n".join(
        part if isinstance(part, str) else part.content if isinstance(part, TextContent) else f"[{part.kind}]"
        for part in parts
    )
