"""Real Claude Code inside a workspace without network: its model is reached through the proxy alone, and Handrail at
handrail.internal, where each call waits for a person."""

import json
import shlex
import time

import pytest

from tests.approvals.agents.claude_code.conftest import claude
from tests.approvals.agents.claude_code.model import DONE, Model, call
from tests.workspaces.egress.grounds import OPEN
from tests.workspaces.egress.programs import put_program
from tests.workspaces.egress.test_allowing import decide
from tests.workspaces.egress.test_workspace import rows

__all__ = ["claude"]  # a fixture


@pytest.fixture
def model():
    running = Model(OPEN)
    yield running
    running.stop()


def waiting(person, key) -> dict:
    """The one card of the workspace, once it is there."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if found := person.get(f"/actions?status=pending&workspace={key}").json["actions"]:
            return person.get(f"/actions/{found[0]['id']}").json
        time.sleep(0.1)
    raise AssertionError("no card came")


OFF = json.dumps({"disableAllHooks": True})
NO_HTTP = json.dumps({"allowedHttpHookUrls": [], "httpHookAllowedEnvVars": []})


@pytest.mark.parametrize(
    ("driver", "in_folder", "words"),
    [
        ("sandbox", OFF, ["--settings", OFF]),
        ("sandbox", NO_HTTP, ["--settings", NO_HTTP]),
        ("sandbox", OFF, ["--bare"]),
        ("docker", OFF, ["--settings", OFF, "--dangerously-skip-permissions"]),
    ],
)
def test_claude_code_works_inside_and_is_gated(
    driver, in_folder, words, claude, model, workspace, product, agent, reviewer, name_for
):
    host = name_for("model")
    key = workspace(driver=driver, agent=[f"{host}:{model.port}"])
    put_program(product, agent, key, claude, "claude")
    allowed = json.dumps({"permissions": {"allow": ["Bash"]}, "disableAllHooks": True})
    model.scripts["SHIP"] = [
        [call("Bash", command="git push; echo one >> ran", description="Deploy")],
        [call("Bash", command="git push; echo two >> ran", description="Deploy again")],
        DONE,
    ]
    env = {
        "ANTHROPIC_BASE_URL": f"http://{host}:{model.port}",
        "ANTHROPIC_API_KEY": "x",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
    }
    command = (
        f"mkdir -p .claude ~/.claude && echo {shlex.quote(in_folder)} > .claude/settings.json && "
        f"echo {shlex.quote(allowed)} > ~/.claude/settings.json && "
        f"~/.local/bin/claude -p 'SHIP it' --output-format stream-json --verbose {shlex.join(words)}"
    )
    started = agent.post(f"/workspaces/{key}/commands", {"command": command, "env": env, "timeout_s": 120}).json
    card = waiting(reviewer, key)
    assert (card["arguments"]["command"], card["agent"]) == ("git push; echo one >> ran", "egress-tests")
    agent.get(f"/workspaces/{key}/files/ran", expect=404)
    decide(reviewer, card)
    card = waiting(reviewer, key)
    decide(reviewer, card, verdict="deny")
    done = agent.finished(started["id"])
    said = agent.get(f"/commands/{started['id']}/output").body
    assert done["exit_status"] == 0, said[-3000:]
    assert agent.get(f"/workspaces/{key}/files/ran").body == b"one\n"
    asked = reviewer.get(f"/actions?workspace={key}").json["actions"]
    assert sorted(action["status"] for action in asked) == ["denied", "succeeded"]
    assert [bool(heard.get("is_error")) for heard in model.results_of("SHIP")] == [False, True]
    out = rows(agent, key, "allowed", host=host)
    assert sum(row["count"] for row in out) >= 3
    assert sum(row["sent"] for row in out) > 1000


def test_a_set_up_has_no_hook_and_the_agents_programs_have(workspace, agent):
    key = workspace("test ! -e /etc/claude-code && touch /workspace/setup-had-none")
    assert agent.get(f"/workspaces/{key}/files/setup-had-none").body == b""
    files = "/etc/claude-code/managed-settings.json", "/etc/claude-code/handrail_hook.py"
    agent.run(key, f"cat {files[0]} > shown; ! echo > {files[0]} && ! echo > {files[1]} && ! rm {files[1]}")
    shown = json.loads(agent.get(f"/workspaces/{key}/files/shown").body)
    [gate] = shown["hooks"]["PreToolUse"][0]["hooks"]
    words = ["/usr/bin/env", "-i", "LC_ALL=C.UTF-8", "/usr/bin/python3", "-I", "-S", files[1]]
    assert shlex.split(gate["command"])[: len(words) + 2] == [*words, "run:http://handrail.internal", "gate"]
    assert (gate["command"].endswith("exit 2; }"), gate["onFailure"]) == (True, "block")
    assert (shown["hooks"]["Stop"][0]["hooks"][0]["type"], shown["disableAllHooks"]) == ("command", False)


def test_the_scripted_model_is_reached_in_no_other_way(model, workspace, agent, name_for):
    """The test above would mean little if the model could be reached past the proxy."""
    host = name_for("model")
    key = workspace(agent=[f"{host}:{model.port}"])
    agent.run(key, f"curl --noproxy '*' -sS -m 3 http://{host}:{model.port}/", 6)
    agent.run(key, f"curl --noproxy '*' -sS -m 3 {model.url}/", 7)
