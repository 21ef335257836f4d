"""The Claude Agent SDK with the real Claude Code on a scripted model: every call asks, in each mode."""

import json
import subprocess
from pathlib import Path

import pytest

from approvals.connect.proof.model import DONE, Model, call
from tests.approvals.agents.claude_code.conftest import claude  # noqa: F401 (fixture)
from tests.support.waiting import until

PROGRAM = Path(__file__).with_name("claude_sdk_program.py")
MODES = ["default", "acceptEdits", "bypassPermissions"]


@pytest.fixture
def model():
    made = Model()
    yield made
    made.stop()


@pytest.fixture
def start(frameworks, claude, environment, model, tmp_path):  # noqa: F811
    """`start("bypassPermissions", "echo one >> ran", ask=[…])`: the program, whose model makes this one call."""
    processes = []

    def run(mode: str, command: str, ask=(), ungated=(), **more) -> subprocess.Popen:
        model.scripts["[sdk]"] = [[call("Bash", command=command)], DONE]
        home = tmp_path / "home"
        (home / ".claude").mkdir(parents=True)
        own = {"permissions": {"allow": ["Bash"], "ask": list(ask)}}
        (home / ".claude/settings.json").write_text(json.dumps(own))
        (tmp_path / "work").mkdir()
        variables = environment | {"HOME": str(home), "ANTHROPIC_BASE_URL": model.url, "ANTHROPIC_API_KEY": "x"}
        variables |= {"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1", "NO_PROXY": "*"}
        variables |= {"IS_SANDBOX": "1"}  # Claude Code refuses bypassPermissions to root otherwise
        line = [frameworks, str(PROGRAM), claude, mode, "[sdk] Go.", *ungated]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        processes.append(subprocess.Popen(line, env=variables | more, cwd=tmp_path / "work", **pipes))
        return processes[-1]

    yield run
    for process in processes:
        if process.poll() is None:
            process.kill()
        process.communicate()


@pytest.fixture
def ran(tmp_path):
    return lambda: (tmp_path / "work/ran").read_text() if (tmp_path / "work/ran").exists() else ""


def ended(program: subprocess.Popen):
    out, err = program.communicate(timeout=120)
    assert program.returncode == 0, err[-3000:]
    return out


@pytest.mark.parametrize("mode", MODES)
def test_a_call_waits_in_each_mode_and_runs_as_it_was_edited(start, person, name, ran, model, mode):
    program = start(mode, "echo one >> ran; sudo true || true")
    asked = person.sees(name)
    person.decides(asked, "edit", arguments={"command": "echo two >> ran"}, comment="Two is free.")
    ended(program)
    assert ran() == "two\n"
    assert "Two is free." in model.transcript("[sdk]")
    until(lambda: person.status(asked) == "succeeded")


def test_the_conversation_is_at_the_desk(start, person, name, ran, product):
    program = start("bypassPermissions", "echo one >> ran; sudo true || true")
    asked = person.sees(name)
    person.decides(asked, "approve")
    answer = ended(program).strip()
    [session] = product.get(f"/api/v1/sessions?agent={name}", person.token).json["sessions"]
    kept = product.get(f"/api/v1/sessions/{session['id']}/messages", person.token).json["messages"]
    assert [(row["role"], row["kind"]) for row in kept] == [
        ("user", "text"), ("assistant", "call"), ("tool", "result"), ("assistant", "text")
    ], kept  # fmt: skip
    assert (kept[0]["text"], kept[3]["text"]) == ("[sdk] Go.", answer)
    assert [row["action"] for row in kept] == [None, asked["id"], asked["id"], None]
    assert [row["ok"] for row in kept] == [None, None, True, None]


def test_a_denial_reaches_the_model_and_nothing_runs(start, person, name, ran, model):
    program = start("bypassPermissions", "echo one >> ran; sudo true || true")
    person.decides(person.sees(name), "deny", comment="Not now.")
    ended(program)
    assert (ran(), "Not now." in model.transcript("[sdk]")) == ("", True)


def test_what_the_users_settings_ask_about_is_answered_by_the_same_approval(start, person, name, ran):
    program = start("default", "echo one >> ran; sudo true || true", ask=["Bash(echo:*)"])
    person.decides(person.sees(name), "approve")
    ended(program)
    assert ran() == "one\n"


@pytest.mark.parametrize(("ask", "wanted"), [((), "one\n"), (["Bash(echo:*)"], "")])
def test_an_ungated_tool_is_left_to_the_users_settings(start, person, name, ran, ask, wanted):
    ended(start("default", "echo one >> ran", ask=ask, ungated=["Bash"]))
    assert (ran(), person.of(name)) == (wanted, [])


@pytest.mark.parametrize("mode", ["closes", "500", "{}", "garbage"])
def test_nothing_runs_when_no_desk_answers(start, line, ran, model, mode):
    line.cut(mode)
    ended(start("bypassPermissions", "echo one >> ran", HANDRAIL_URL=line.url))
    assert (ran(), "Handrail could not be asked" in model.transcript("[sdk]")) == ("", True)


def test_nothing_runs_with_a_wrong_token(start, ran):
    ended(start("bypassPermissions", "echo one >> ran", HANDRAIL_TOKEN="hr_wrong"))
    assert ran() == ""
