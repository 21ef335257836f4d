"""An agent of Microsoft Agent Framework with a scripted client; it does what `pydantic_ai_program` does."""

import asyncio
import json
import os
from datetime import date
from functools import partial
from pathlib import Path

from agent_framework import (
    Agent,
    BaseChatClient,
    ChatMiddlewareLayer,
    ChatResponse,
    Content,
    FunctionInvocationLayer,
    Message,
    tool,
)

from handrail_client import Handrail
from handrail_client.agent_framework import middleware


class Scripted(FunctionInvocationLayer, ChatMiddlewareLayer, BaseChatClient):
    def _inner_get_response(self, *, messages, stream, options, **more):
        async def answer():
            return ChatResponse(messages=[Message("assistant", _answered(messages))])

        return answer()


def _answered(messages) -> list[Content]:
    results = [str(part.result) for each in messages for part in each.contents if part.type == "function_result"]
    lines = Path("calls").read_text().splitlines()
    if len(results) == len(lines):
        return [Content.from_text(" | ".join(results))]
    return [Content.from_function_call(f"call_{len(results)}", "note", arguments=json.loads(lines[len(results)]))]


@tool
def note(command: str, day: date | None = None) -> str:
    """Note a line."""
    line = f"{command} {day.isoformat()}" if day else command
    with open("ran", "a") as file:
        file.write(line + "\n")
    return f"noted {line}"


async def main():
    desk = Handrail(grace=1)
    if seconds := os.environ.get("EXPIRES"):
        desk.ask = partial(desk.ask, expires_in_s=int(seconds))
    gated = middleware(desk, session="night-1", names={"note": "Bash"})
    print((await Agent(client=Scripted(), tools=[note], middleware=gated).run("Go on.")).text)


asyncio.run(main())
