"""The protocol's own client, the gate, and the real OpenCode: only the gate is between the model and the machine."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from approvals.agents.programs import SCRIPTED
from approvals.connect.proof.model import DONE, Model, run, say
from tests.approvals.agent_runs.conftest import real_agents  # noqa: F401 (fixture)
from tests.client.frameworks.conftest import frameworks  # noqa: F401 (fixture)
from tests.support.waiting import until

PROGRAM = Path(__file__).with_name("sdk_program.py")
DEPLOY = "echo {} >> ran; git push origin main || true"


@pytest.fixture
def model():
    made = Model()
    yield made
    made.stop()


@pytest.fixture
def start(real_agents, frameworks, program, product, agent_token, model, tmp_path):  # noqa: F811
    """`start(prompt)`: the editor, with OpenCode behind the gate; OpenCode itself asks about everything."""
    started = []

    def prompt(text: str, url: str = "") -> subprocess.Popen:
        home = tmp_path / "home"
        home.mkdir(exist_ok=True)
        variables = {"PATH": os.environ["PATH"], "HOME": str(home), "PWD": str(tmp_path)}
        variables |= {"HANDRAIL_URL": url or product.url, "HANDRAIL_TOKEN": agent_token}
        variables |= SCRIPTED["opencode"].variables(model.url)
        config = json.loads(variables["OPENCODE_CONFIG_CONTENT"]) | {"permission": {"*": "ask"}}
        variables["OPENCODE_CONFIG_CONTENT"] = json.dumps(config)
        gate = [sys.executable, "-IS", str(program), "env", "gate", "--", str(real_agents / "opencode"), "acp"]
        line = [str(frameworks), str(PROGRAM), str(tmp_path), text, "--", *gate]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        started.append(subprocess.Popen(line, env=variables, cwd=tmp_path, **pipes))
        return started[-1]

    yield prompt
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()


def ended(editor: subprocess.Popen) -> dict:
    out, err = editor.communicate(timeout=200)
    assert editor.returncode == 0, err[-2000:]
    return json.loads(out.splitlines()[-1])


def ran(folder: Path) -> str:
    file = folder / "ran"
    return file.read_text() if file.exists() else ""


def test_an_approved_call_runs_once_and_its_end_is_known(start, model, reviewer, card, actions, tmp_path):
    model.scripts["[yes]"] = [[run(DEPLOY.format("one"))], [say("It is out.")]]
    editor = start("[yes] Ship it.")
    asked = card()
    assert (asked["tool"], asked["arguments"]) == ("Bash", {"command": DEPLOY.format("one")})
    reviewer.answer(asked, "approve")
    assert ended(editor) == {"stop": "end_turn", "said": ["It is out."]}
    assert ran(tmp_path) == "one\n"
    until(lambda: [action["status"] for action in actions()] == ["succeeded"])


def test_a_denied_call_does_not_run_and_the_person_reads_why(start, model, reviewer, card, tmp_path):
    model.scripts["[no]"] = [[run(DEPLOY.format("one"))], DONE]
    editor = start("[no] Ship it.")
    reviewer.answer(card(), "deny", comment="Not on a Friday")
    assert "Not on a Friday" in "".join(ended(editor)["said"])
    assert ran(tmp_path) == ""


def test_nothing_runs_when_nobody_can_be_asked(start, model, tmp_path):
    model.scripts["[away]"] = [[run(DEPLOY.format("one"))], DONE]
    assert "nothing is allowed" in "".join(ended(start("[away] Ship it.", "http://127.0.0.1:9"))["said"])
    assert ran(tmp_path) == ""
