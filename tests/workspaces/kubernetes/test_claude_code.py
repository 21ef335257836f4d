"""Real Claude Code in a pod: gated, approved and denied, its work restored, and back after its node was lost."""

import json
import os
import shlex
import shutil

import pytest

from tests.approvals.agents.claude_code.conftest import claude
from tests.approvals.agents.claude_code.model import DONE, Model, call
from tests.support.waiting import until
from tests.workspaces.egress.grounds import OPEN

__all__ = ["claude"]  # a fixture
PUSH = "git push; echo one >> ran"
ALLOWED = json.dumps({"permissions": {"allow": ["Bash"]}})


@pytest.fixture
def model():
    running = Model(OPEN)
    yield running
    running.stop()


def install(desk, key: str, program: str):
    """Put a program into the home of a workspace at rest: one file of hundreds of megabytes, which no upload takes."""
    identity = desk.product.shell(f"from workspaces.models import Workspace as W; print(W.objects.get(key={key!r}).pk)")
    home = desk.product.home / "workspaces" / identity.strip() / "home"
    folder = home / ".local" / "bin"
    folder.mkdir(parents=True)
    shutil.copy(program, folder / "claude")
    owner = home.stat()
    for path in (home / ".local", folder, folder / "claude"):
        os.chown(path, owner.st_uid, owner.st_gid)


def waiting(lead, key: str) -> dict:
    """The card of the workspace that waits, once it is there."""
    found = until(lambda: lead.get(f"/actions?status=pending&workspace={key}").json["actions"])
    return lead.get(f"/actions/{found[0]['id']}").json


def decide(lead, card: dict, verdict: str):
    lead.post(f"/actions/{card['id']}/decision", {"verdict": verdict, "digest": card["digest"]}, expect=200)


def start(desk, key: str, prompt: str, url: str) -> dict:
    """Start Claude Code on a task; the command that carries it."""
    env = {
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_API_KEY": "x",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
    }
    command = (
        f"mkdir -p ~/.claude && echo {shlex.quote(ALLOWED)} > ~/.claude/settings.json && "
        f"~/.local/bin/claude -p {shlex.quote(prompt)} --output-format stream-json --verbose"
    )
    return desk.post(f"/workspaces/{key}/commands", {"command": command, "env": env, "timeout_s": 200}).json


def moved(desk, key: str, what: str) -> dict:
    desk.post(f"/workspaces/{key}/{what}", expect=202)
    return desk.settled(key)


@pytest.mark.timeout(1200)  # its program, hundreds of megabytes, is carried into two pods
def test_it_works_in_a_pod_and_comes_back_when_its_node_is_lost(
    claude, model, on_cluster, lead, workspace, name_for, kubernetes, powered
):
    desk, host = on_cluster, name_for("model")
    key = workspace(agent=[f"{host}:{model.port}"])
    assert moved(desk, key, "stop")["state"] == "stopped"
    install(desk, key, claude)
    assert (up := moved(desk, key, "resume"))["state"] == "ready", up["reason"]
    model.scripts["SHIP"] = [
        [call("Bash", command=PUSH, description="Deploy")],
        [call("Bash", command="git push; echo two >> ran", description="Deploy again")],
        DONE,
    ]
    started = start(desk, key, "SHIP it", f"http://{host}:{model.port}")
    card = waiting(lead, key)
    assert (card["arguments"]["command"], card["agent"], card["workspace"]) == (PUSH, "pods", key)
    desk.get(f"/workspaces/{key}/files/ran", expect=404)
    decide(lead, card, "approve")
    second = until(lambda: (found := waiting(lead, key))["id"] != card["id"] and found)
    decide(lead, second, "deny")
    assert desk.finished(started["id"])["exit_status"] == 0
    assert desk.get(f"/workspaces/{key}/files/ran").body == b"one\n"
    assert [bool(heard.get("is_error")) for heard in model.results_of("SHIP")] == [False, True]

    kept = desk.post(f"/workspaces/{key}/snapshots", {"label": "shipped"}).json["number"]
    desk.run(key, "echo later > after; rm ran")
    desk.post(f"/workspaces/{key}/snapshots/{kept}/restore", expect=202)
    desk.settled(key)
    assert desk.get(f"/workspaces/{key}/files/ran").body == b"one\n"
    desk.get(f"/workspaces/{key}/files/after", expect=404)

    desk.run(key, "echo unsaved > unsaved")
    [pod] = pods_of(kubernetes, key, desk)
    node = pod["spec"]["nodeName"]
    powered(node)
    path = f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}?gracePeriodSeconds=0"
    kubernetes.api.ask(path, method="DELETE")  # as an operator does who knows that the node is gone
    until(lambda: desk.get(f"/workspaces/{key}").json["state"] == "stopped", within=240)
    refused = desk.post(f"/workspaces/{key}/snapshots/{kept}/restore", expect=409)
    assert "is gone from this host. “Resume” brings back" in refused.json["detail"]
    back = moved(desk, key, "resume")
    assert back["state"] == "ready", back
    assert "what came after it is lost" in back["reason"]
    assert desk.get(f"/workspaces/{key}/files/ran").body == b"one\n"
    [again] = pods_of(kubernetes, key, desk)
    assert again["spec"]["nodeName"] != node


def pods_of(kubernetes, key: str, desk) -> list[dict]:
    """The pods of the workspace's Run that are not going."""
    run = desk.product.shell(
        f"from workspaces.models import Run; print(Run.objects.filter(workspace__key={key!r}).latest('started_at').pk)"
    ).strip()
    found = kubernetes.api.ask("/api/v1/pods")[1]["items"]
    return [each for each in found if run in each["metadata"]["name"] and "deletionTimestamp" not in each["metadata"]]
