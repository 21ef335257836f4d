"""An agent of Google's ADK whose scripted model calls one tool as `calls` says, gated by AAP's own adapter."""

import asyncio
import os
from pathlib import Path

from agentapprovalprotocol.adk import ApprovalPlugin, check_coverage
from google.adk.agents import LlmAgent
from google.adk.apps import App
from google.adk.models import BaseLlm, LlmResponse
from google.adk.runners import InMemoryRunner
from google.genai import types

LINES = Path("calls").read_text().splitlines()


class Scripted(BaseLlm):
    """Calls the tool with all lines in one turn, then says what came of it."""

    async def generate_content_async(self, llm_request, stream=False):
        parts = [part for content in llm_request.contents for part in content.parts]
        told = [str(part.function_response.response) for part in parts if part.function_response]
        calls = [types.Part.from_function_call(name="note", args={"command": line}) for line in LINES]
        answer = [types.Part(text=" | ".join(told))] if told else calls
        yield LlmResponse(content=types.Content(role="model", parts=answer))


def note(command: str) -> str:
    """Note a line."""
    with open("ran", "a") as file:
        file.write(command + "\n")
    return f"noted {command}"


async def main():
    plugin = ApprovalPlugin(f"{os.environ['HANDRAIL_URL']}/aap", os.environ["HANDRAIL_TOKEN"])
    agent = LlmAgent(name="noter", model=Scripted(model="scripted"), tools=[note])
    app = App(name="notes", root_agent=agent, plugins=[plugin])
    check_coverage(app, plugin)
    runner = InMemoryRunner(app=app)
    session = await runner.session_service.create_session(app_name="notes", user_id="tests")
    message = types.Content(role="user", parts=[types.Part(text="Note the lines.")])
    async for event in runner.run_async(user_id="tests", session_id=session.id, new_message=message):
        print("".join(part.text or "" for part in event.content.parts) if event.content else "")


asyncio.run(main())
