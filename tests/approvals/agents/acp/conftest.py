"""The program that speaks ACP as people get it, between an editor of the test's and an agent, at a running desk."""

import itertools
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from approvals.agents import hook_programs
from tests.approvals.agents.claude_code.conftest import Reviewer
from tests.client.mcp.conftest import Client
from tests.support.waiting import until

AGENT = [sys.executable, str(Path(__file__).with_name("scripted_agent.py"))]


@pytest.fixture(scope="session")
def program(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("acp") / "handrail-acp.pyz"
    path.write_bytes(hook_programs.acp_archive())
    return path


@pytest.fixture(scope="session")
def reviewer(product):
    return Reviewer(product)


def permission(command: str, call_id: str = "call-1", **raw) -> dict:
    """The step in which the agent asks to run a shell command."""
    call = {"toolCallId": call_id, "title": command, "kind": "execute", "status": "pending"}
    call["rawInput"] = {"command": command} | raw
    options = [
        {"optionId": "forever", "kind": "allow_always", "name": "Always"},
        {"optionId": "yes", "kind": "allow_once", "name": "Once"},
        {"optionId": "no", "kind": "reject_once", "name": "No"},
    ]
    return {"method": "session/request_permission", "params": {"toolCall": call, "options": options}}


def chosen(option: str) -> dict:
    return {"outcome": {"outcome": "selected", "optionId": option}}


class Editor(Client):
    """An editor: prompts the agent, answers its requests, and keeps what it was told."""

    def __init__(self, argv, **more):
        super().__init__(argv, **more)
        self._ids = itertools.count(1)
        self.request("initialize", protocolVersion=1, clientCapabilities={})
        self.session = self.request("session/new", cwd=str(more["cwd"]), mcpServers=[])["sessionId"]

    def request(self, method: str, **params) -> dict:
        number = next(self._ids)
        self.ask(number, method, params)
        return self.answer(number)["result"]

    def start(self, *steps) -> int:
        """Prompt the agent with these steps, or with a text; return the request's number."""
        number = next(self._ids)
        text = steps[0] if isinstance(steps[0], str) else json.dumps(steps)
        parts = [{"type": "text", "text": text}]
        self.ask(number, "session/prompt", {"sessionId": self.session, "prompt": parts})
        return number

    def prompt(self, *steps) -> str:
        """The reason for which the turn stopped."""
        return self.answer(self.start(*steps))["result"]["stopReason"]

    @property
    def said(self) -> list[str]:
        """The pieces of the agent's message."""
        updates = [each["params"]["update"] for each in self.heard if each.get("method") == "session/update"]
        return [each["content"]["text"] for each in updates if each["sessionUpdate"] == "agent_message_chunk"]

    @property
    def answers_of_client(self) -> list:
        """What the agent was answered, as it repeats it."""
        found = []
        for text in self.said:
            try:
                found.append(json.loads(text))
            except ValueError:
                continue
        return found

    def asked(self, method: str) -> list[dict]:
        """The agent's requests that reached the editor."""
        return [each for each in self.heard if each.get("method") == method and "id" in each]

    def close(self):
        self.process.stdin.close()
        self.process.wait(60)
        for thread in self._threads:
            thread.join(60)
        self.process.stdout.close()
        self.process.stderr.close()


@pytest.fixture
def editor_at(program, tmp_path):
    """`editor_at(url, token)`: an editor whose agent is started through the gate."""
    made = []

    def start(url: str, token: str, argv=AGENT, **environment) -> Editor:
        line = [sys.executable, "-IS", str(program), "env", "gate", "--", *argv]
        variables = {"PATH": os.environ["PATH"], "HANDRAIL_URL": url, "HANDRAIL_TOKEN": token} | environment
        made.append(Editor(line, cwd=tmp_path, env=variables))
        return made[-1]

    yield start
    for editor in made:
        editor.close()


@pytest.fixture
def agent_token(product, request):
    """A token of an agent of the test's own: the sessions of different tests have the same names."""
    return product.agent_token(f"acp-{abs(hash(request.node.nodeid)) % 10**9}")


@pytest.fixture
def editor(editor_at, product, agent_token):
    return editor_at(product.url, agent_token)


@pytest.fixture
def actions(product, agent_token):
    """`actions()`: those of the test's agent, oldest first."""

    def found() -> list[dict]:
        rows = product.get("/api/v1/actions?limit=50", agent_token).json["actions"]
        return [product.get(f"/api/v1/actions/{row['id']}", agent_token).json for row in reversed(rows)]

    return found


@pytest.fixture
def card(actions):
    """`card()`: the one action that waits."""
    return lambda: until(lambda: next((each for each in actions() if each["status"] == "pending"), None), within=120)


@pytest.fixture
def run(program, product, agent_token, tmp_path):
    """`run(prompt, session="", instructions="")`: a turn as Handrail starts it; (exit status, printed lines)."""

    def start(*steps, session: str = "", instructions: str = "") -> tuple[int, list[dict]]:
        prompt = steps[0] if isinstance(steps[0], str) else json.dumps(steps)
        turn = {"prompt": prompt, "instructions": instructions, "session": session}
        turn |= {"cwd": str(tmp_path), "dialect": "acp"}
        line = [sys.executable, "-IS", str(program), "env", "run", json.dumps(turn), "--", *AGENT]
        variables = {"PATH": os.environ["PATH"], "HANDRAIL_URL": product.url, "HANDRAIL_TOKEN": agent_token}
        done = subprocess.run(line, env=variables, cwd=tmp_path, capture_output=True, text=True, timeout=120)
        return done.returncode, [json.loads(each) for each in done.stdout.splitlines()]

    return start
