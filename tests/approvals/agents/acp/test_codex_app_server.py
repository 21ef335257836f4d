"""An editor of the test's, the gate, and the real `codex app-server`: what Codex asks approval for."""

import json
import os
import sys
from pathlib import Path

import pytest

from approvals.agents.codex.program import ON_LOOPBACK, SCRIPTED
from approvals.connect.proof.model import DONE, Model, call
from tests.approvals.agent_runs.conftest import real_agents  # noqa: F401 (fixture)
from tests.client.mcp.conftest import Client
from tests.support.waiting import until

SHIP = "echo one >> ran; git push origin main || true"


class Editor(Client):
    """A client of app-server; Codex leaves `jsonrpc` out."""

    def request(self, number: int, method: str, **params) -> dict:
        self.send({"id": number, "method": method, "params": params})
        return self.answer(number)["result"]

    def begin(self, folder: Path) -> str:
        self.request(1, "initialize", clientInfo={"name": "test", "version": "1"})
        self.send({"method": "initialized"})
        about = {"approvalPolicy": "on-request", "sandbox": "read-only"}
        return self.request(2, "thread/start", cwd=str(folder), **about)["thread"]["id"]

    def told(self, method: str) -> list[dict]:
        return [each["params"] for each in self.heard if each.get("method") == method]

    def turn(self, thread: str, text: str):
        self.request(3, "turn/start", threadId=thread, input=[{"type": "text", "text": text}])

    def ended(self) -> str:
        return until(lambda: self.told("turn/completed"), within=120)[0]["turn"]["status"]

    @property
    def asked(self) -> list[str]:
        """Requests for approval that reached the editor."""
        return [each["method"] for each in self.heard if "pproval" in str(each.get("method")) and "id" in each]


@pytest.fixture
def model():
    made = Model()
    yield made
    made.stop()


@pytest.fixture
def editor(real_agents, program, product, agent_token, model, tmp_path):  # noqa: F811
    made = []

    def start(command: str, url: str = "") -> tuple[Editor, str]:
        escalated = {"sandbox_permissions": "require_escalated", "justification": "It has to reach the network."}
        model.scripts["[codex]"] = [[call("exec_command", cmd=command, **escalated)], DONE]
        settings = [f"{name}={json.dumps(value)}" for name, value in ON_LOOPBACK.items()]
        codex = [
            str(real_agents / "codex"),
            *(word for each in settings for word in ("-c", each.replace("{url}", model.url))),
        ]
        line = [sys.executable, "-IS", str(program), "env", "codex", "--", *codex, "app-server"]
        (tmp_path / "home").mkdir()
        variables = {"PATH": f"{real_agents}:{os.environ['PATH']}", "HOME": str(tmp_path / "home")}
        variables |= {"HANDRAIL_URL": url or product.url, "HANDRAIL_TOKEN": agent_token}
        variables |= SCRIPTED.variables(model.url)
        made.append(Editor(line, cwd=tmp_path, env=variables))
        thread = made[-1].begin(tmp_path)
        made[-1].turn(thread, "[codex] Ship it.")
        return made[-1], thread

    yield start
    for each in made:
        each.process.stdin.close()
        each.process.wait(60)
        for thread in each._threads:
            thread.join(60)
        each.process.stdout.close()
        each.process.stderr.close()


def ran(folder: Path) -> str:
    return (folder / "ran").read_text() if (folder / "ran").exists() else ""


def test_an_escalated_command_is_decided_at_the_desk_and_its_end_is_known(editor, reviewer, card, actions, tmp_path):
    running, thread = editor(SHIP)
    asked = card()
    assert (asked["tool"], SHIP in asked["arguments"]["command"]) == ("Bash", True)
    assert asked["arguments"]["description"] == "It has to reach the network."
    assert (asked["session"], ran(tmp_path)) == (thread, "")
    reviewer.answer(asked, "approve")
    assert running.ended() == "completed"
    assert (running.asked, ran(tmp_path)) == ([], "one\n")
    until(lambda: [action["status"] for action in actions()] == ["succeeded"])


def test_a_denial_reaches_the_model_with_its_reason(editor, reviewer, card, model, tmp_path):
    running, _ = editor(SHIP)
    reviewer.answer(card(), "deny", comment="Not on a Friday")
    assert running.ended() == "completed"
    assert (running.asked, ran(tmp_path)) == ([], "")
    assert "Not on a Friday" in model.transcript("[codex]")


def test_nothing_runs_when_nobody_can_be_asked(editor, tmp_path):
    running, _ = editor(SHIP, "http://127.0.0.1:9")
    assert running.ended() == "completed"
    assert (running.asked, ran(tmp_path)) == ([], "")


def test_an_interrupted_turn_takes_its_question_back(editor, card, actions, tmp_path):
    running, thread = editor(SHIP)
    card()
    turn = running.told("turn/started")[0]["turn"]["id"]
    running.send({"id": 9, "method": "turn/interrupt", "params": {"threadId": thread, "turnId": turn}})
    assert running.ended() in ("interrupted", "completed")
    until(lambda: [action["status"] for action in actions()] == ["cancelled"])
    assert ran(tmp_path) == ""
