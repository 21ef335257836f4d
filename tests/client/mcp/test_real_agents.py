"""The real Claude Code, the gate, and a server made with the MCP project's SDK: numbers, an edit and a question."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from approvals.agents.claude_code.settings import settings_to_copy
from approvals.connect.proof.model import DONE, Model, call
from dashboard import settings
from tests.approvals.agent_runs.conftest import real_agents  # noqa: F401 (fixture)
from tests.client.frameworks.conftest import frameworks  # noqa: F401 (fixture)
from tests.support.waiting import until

SERVER = Path(__file__).with_name("sdk_server.py")


@pytest.fixture
def model():
    made = Model()
    yield made
    made.stop()


@pytest.fixture(params=["pipes", "http"])
def server(request, frameworks, command, environment, tmp_path):  # noqa: F811
    """The settings of the server behind its gate, as Claude Code reads them."""
    work = tmp_path / "work"
    work.mkdir()
    gate = [sys.executable, *command[1:], "mcp-gate", "--name", "sdk", "--grace", "0.5"]
    sdk = [frameworks, "-W", "ignore", str(SERVER)]
    if request.param == "pipes":
        own = {name: environment[name] for name in ("HANDRAIL_URL", "HANDRAIL_TOKEN", "PYTHONPATH")}
        yield {"type": "stdio", "command": gate[0], "args": [*gate[1:], "--", *sdk], "env": own}
        return
    made = []

    def start(*words: str) -> subprocess.Popen:
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        made.append(subprocess.Popen(words, env=environment, cwd=work, **pipes))
        return made[-1]

    port = start(*sdk, "http").stdout.readline().strip()
    address = start(*gate, "--http", f"http://127.0.0.1:{port}/mcp").stderr.readline().split()[-1]
    yield {"type": "http", "url": address}
    for process in reversed(made):
        process.terminate()
        process.communicate(timeout=60)


@pytest.fixture
def start(real_agents, server, environment, product, model, tmp_path):  # noqa: F811
    """`start(block, …)`: Claude Code, whose model makes these calls, and whose user's questions come to the desk."""
    processes = []

    def run(*blocks) -> subprocess.Popen:
        model.scripts["[mcp]"] = [*([block] for block in blocks), DONE]
        home = tmp_path / "home"
        (home / ".claude").mkdir(parents=True)
        connected = json.loads(json.dumps(settings_to_copy()).replace(settings.HANDRAIL_PUBLIC_URL, product.url))
        asks = {name: hooks for name, hooks in connected["hooks"].items() if name.startswith("Elicitation")}
        own = {"permissions": {"allow": ["mcp__sdk"]}, "hooks": asks}
        (home / ".claude/settings.json").write_text(json.dumps(own))
        (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": {"sdk": server}}))
        variables = environment | {"HOME": str(home), "ANTHROPIC_BASE_URL": model.url, "ANTHROPIC_API_KEY": "x"}
        variables |= {"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1", "NO_PROXY": "*"}
        line = [str(real_agents / "claude"), "-p", "[mcp] Go.", "--mcp-config", str(tmp_path / "mcp.json")]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        processes.append(subprocess.Popen(line, env=variables, cwd=tmp_path / "work", **pipes))
        return processes[-1]

    yield run
    for process in processes:
        if process.poll() is None:
            process.kill()
        process.communicate()


@pytest.fixture
def ran(tmp_path):
    return lambda: (tmp_path / "work/ran").read_text().splitlines() if (tmp_path / "work/ran").exists() else []


def ended(program: subprocess.Popen):
    out, err = program.communicate(timeout=120)
    assert program.returncode == 0, (out[-2000:], err[-2000:])


def heard(model) -> str:
    return json.dumps(model.results_of("[mcp]"), ensure_ascii=False)


def test_a_call_with_numbers_is_shown_edited_and_run_as_it_was_approved(start, person, product, name, model, ran):
    running = start(call("mcp__sdk__send", region="eu", amount=1.5), call("mcp__sdk__send", region="us", amount=0.1))
    asked = person.sees(name)
    shown = product.get(f"/api/v1/actions/{asked['id']}", person.token)
    assert (asked["tool"], '"amount": 1.5' in shown.text) == ("mcp__sdk__send", True)
    person.decides(asked, "edit", arguments={"region": "eu", "amount": 2.25}, comment="Not so little.")
    second = person.sees(name)
    person.decides(second, "approve")
    ended(running)
    assert ran() == ["eu 2.25", "us 0.1"]
    told = heard(model)
    assert [word in told for word in ("noted us 0.1", "a person edited this call", "Not so little.")] == [True] * 3, (
        told
    )
    offered = json.dumps(model.asked[0])  # what Claude Code knows by `tools/list` through the gate
    assert [tool in offered for tool in ("mcp__sdk__send", "mcp__sdk__ship", "mcp__sdk__note")] == [True] * 3
    until(
        lambda: (person.status(asked), person.status(second)) == ("succeeded", "succeeded")
    )  # reported after the answer


def test_a_denied_call_does_not_reach_the_server(start, person, name, model, ran):
    running = start(call("mcp__sdk__send", region="eu", amount=1e21))
    person.decides(person.sees(name), "deny", comment="Too much.")
    ended(running)
    assert (ran(), "Too much." in heard(model)) == ([], True)


def test_a_question_of_the_tool_is_answered_at_the_desk_within_its_call(start, person, product, name, ran):
    running = start(call("mcp__sdk__ship", command="v2"))
    asked = person.sees(name)
    person.decides(asked, "approve")
    question = person.sees(name)
    assert question["tool"] == "elicitation/create"
    given = product.get(f"/api/v1/actions/{question['id']}", person.token).json["arguments"]
    person.decides(question, "edit", arguments=given | {"content": {"text": "tests"}})
    ended(running)
    assert ran() == ["v2 because tests"]
    until(lambda: person.status(asked) == "succeeded")  # reported after the answer
