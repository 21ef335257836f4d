"""A Pydantic AI agent with its function model: it calls `note` with the arguments in each line of the file `calls`.

Run again after a kill it asks its model the same again, in the same session.
"""

import asyncio
import os
from datetime import date
from functools import partial
from pathlib import Path

from pydantic_ai import Agent
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import FunctionModel

from handrail_client import Handrail
from handrail_client.pydantic_ai import HandrailCapability


def answered(messages, info) -> ModelResponse:
    parts = [part for each in messages for part in each.parts]
    results = [part.model_response_str() for part in parts if isinstance(part, ToolReturnPart)]
    lines = Path("calls").read_text().splitlines()
    if len(results) == len(lines):
        return ModelResponse([TextPart(" | ".join(results))])
    return ModelResponse([ToolCallPart("note", lines[len(results)], f"call_{len(results)}")])


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
    gate = HandrailCapability(desk, session="night-1", names={"note": "Bash"})
    agent = Agent(FunctionModel(answered), tools=[note], capabilities=[gate])
    print((await agent.run("Go on.")).output)


asyncio.run(main())
