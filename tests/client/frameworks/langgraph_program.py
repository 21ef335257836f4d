"""A LangGraph agent with a scripted model; run as `… start`, `… resume` or `… forge` in processes of their own.

It calls `note` twice in one turn, with the lines of the file `calls`, and answers with what the tools told it.
Its checkpoints are in SQLite, or in PostgreSQL if CHECKPOINTS is the URL of a server.
"""

import os
import sqlite3
import sys
from pathlib import Path

import psycopg
from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.types import Command

from handrail_client import Handrail
from handrail_client.langgraph import HandrailMiddleware, resume, waiting


class Scripted(BaseChatModel):
    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools, **options):
        return self

    def _generate(self, messages, stop=None, run_manager=None, **options):
        told = [str(message.content) for message in messages if isinstance(message, ToolMessage)]
        lines = Path("calls").read_text().splitlines()
        calls = [{"name": "note", "args": {"command": line}, "id": f"call_{n}"} for n, line in enumerate(lines)]
        message = AIMessage(" | ".join(told)) if told else AIMessage("", tool_calls=calls)
        return ChatResult(generations=[ChatGeneration(message=message)])


@tool
def note(command: str) -> str:
    """Note a line."""
    with open("ran", "a") as file:
        file.write(command + "\n")
    return f"noted {command}"


def checkpointer():
    if url := os.environ.get("CHECKPOINTS"):
        saver = PostgresSaver(psycopg.connect(url, autocommit=True, row_factory=psycopg.rows.dict_row))
        saver.setup()
        return saver
    return SqliteSaver(sqlite3.connect("checkpoints.sqlite3", check_same_thread=False))


CONFIG = {"configurable": {"thread_id": os.environ.get("SESSION") or os.getcwd()}}
desk = Handrail(grace=1)
agent = create_agent(
    Scripted(),
    [note],
    middleware=[HandrailMiddleware(desk, names={"note": "Bash"})],
    checkpointer=checkpointer(),
)
match sys.argv[1]:
    case "start":
        agent.invoke({"messages": [{"role": "user", "content": "Go on."}]}, CONFIG)
        print(len(waiting(agent, CONFIG)))
    case "resume":
        print(resume(desk, agent, CONFIG)["messages"][-1].content)
    case "forge":  # answers in the place of the desk
        for interrupt in agent.get_state(CONFIG).interrupts:
            agent.invoke(Command(resume={interrupt.id: {"type": "approve"}}), CONFIG)
        print(len(waiting(agent, CONFIG)))
