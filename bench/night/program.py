"""A LangGraph agent with a scripted model, which runs two commands that ask; it waits for both answers and goes on.

Run again after a kill it goes on from its checkpoint.
"""

import sqlite3
import subprocess
import sys
import time

from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool
from langgraph.checkpoint.sqlite import SqliteSaver

from handrail_client import Handrail
from handrail_client.langgraph import HandrailMiddleware, resume, waiting

COMMANDS = sys.argv[1:]


class Scripted(BaseChatModel):
    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools, **options):
        return self

    def _generate(self, messages, stop=None, run_manager=None, **options):
        done = sum(isinstance(message, ToolMessage) for message in messages)
        if done == len(COMMANDS):
            message = AIMessage("Both have run.")
        else:
            call = {"name": "shell", "args": {"command": COMMANDS[done]}, "id": f"call_{done}"}
            message = AIMessage("", tool_calls=[call])
        return ChatResult(generations=[ChatGeneration(message=message)])


@tool
def shell(command: str) -> str:
    """Run a command."""
    return subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False).stdout


config = {"configurable": {"thread_id": "night"}}
desk = Handrail()
agent = create_agent(
    Scripted(),
    [shell],
    middleware=[HandrailMiddleware(desk, names={"shell": "Bash"})],
    checkpointer=SqliteSaver(sqlite3.connect("checkpoints.sqlite3", check_same_thread=False)),
)
if not agent.get_state(config).values:
    agent.invoke({"messages": [{"role": "user", "content": "Run both."}]}, config)
while waiting(agent, config):
    resume(desk, agent, config)
    time.sleep(1)
print(agent.get_state(config).values["messages"][-1].content)
