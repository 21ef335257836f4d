"""A crew whose scripted model calls one tool as `calls` says, gated by AAP's own adapter; it prints the last answer."""

import os
from pathlib import Path

os.environ |= {"CREWAI_DISABLE_TELEMETRY": "true", "OTEL_SDK_DISABLED": "true", "CREWAI_TRACING_ENABLED": "false"}

from agentapprovalprotocol.crewai import ApprovalHooks
from crewai import Agent, BaseLLM, Crew, Task
from crewai.tools import tool

LINES = Path("calls").read_text().splitlines()


class Scripted(BaseLLM):
    """Calls the tool with each line, in the text form that CrewAI reads of models without functions."""

    def __init__(self):
        super().__init__(model="scripted")
        self.turn = 0

    def call(self, messages, *args, **options):
        self.turn += 1
        if self.turn <= len(LINES):
            return f'Thought: I note it.\nAction: note\nAction Input: {{"command": "{LINES[self.turn - 1]}"}}\n'
        told = messages if isinstance(messages, str) else " ".join(str(each["content"]) for each in messages)
        return f"Thought: I now know the final answer\nFinal Answer: {told}"

    def supports_function_calling(self):
        return False


@tool("note")
def note(command: str) -> str:
    """Note a line."""
    with open("ran", "a") as file:
        file.write(command + "\n")
    return f"noted {command}"


with ApprovalHooks(f"{os.environ['HANDRAIL_URL']}/aap", os.environ["HANDRAIL_TOKEN"]):
    noter = Agent(role="noter", goal="Note lines", backstory="None", llm=Scripted(), tools=[note])
    task = Task(description="Note the lines.", expected_output="What was noted", agent=noter)
    print(Crew(agents=[noter], tasks=[task]).kickoff())
