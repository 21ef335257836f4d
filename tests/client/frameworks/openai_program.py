"""An agent of the OpenAI SDK with a scripted model; run as `… start`, `… resume` or `… forge`, as langgraph_program."""

import asyncio
import sys
from pathlib import Path

from agents import Agent, Model, ModelResponse, Runner, RunState, Usage, function_tool, set_tracing_disabled
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

from handrail_client import Handrail
from handrail_client.openai_agents import gated, resume, save

set_tracing_disabled(True)


class Scripted(Model):
    async def get_response(self, system_instructions, input, *args, **options):
        told = [str(item["output"]) for item in input if item.get("type") == "function_call_output"]
        return ModelResponse(output=[_answer(told)] if told else _calls(), usage=Usage(), response_id=None)

    def stream_response(self, *args, **options):
        raise NotImplementedError


def _answer(told: list[str]):
    text = ResponseOutputText(text=" | ".join(told), type="output_text", annotations=[])
    return ResponseOutputMessage(id="m", content=[text], role="assistant", status="completed", type="message")


def _calls():
    import json

    return [
        ResponseFunctionToolCall(
            call_id=f"call_{n}", name="note", arguments=json.dumps({"command": line}), type="function_call"
        )
        for n, line in enumerate(Path("calls").read_text().splitlines())
    ]


@function_tool
def note(command: str) -> str:
    """Note a line."""
    with open("ran", "a") as file:
        file.write(command + "\n")
    return f"noted {command}"


async def main(step: str):
    desk = Handrail(grace=1)
    agent = gated(Agent(name="noter", model=Scripted(), tools=[note]), desk, session="night-1", names={"note": "Bash"})
    match step:
        case "start":
            result = await Runner.run(agent, "Go on.")
            save(result, "state.json")
            print(len(result.interruptions))
        case "resume":
            print((await resume(desk, agent, "state.json")).final_output)
        case "forge":  # answers in the place of the desk
            state = await RunState.from_string(agent, Path("state.json").read_text())
            for item in state.get_interruptions():
                state.approve(item)
            print((await Runner.run(agent, state)).final_output)


asyncio.run(main(sys.argv[1]))
