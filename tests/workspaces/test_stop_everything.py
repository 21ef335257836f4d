"""Stop everything: every program of the team ends, nothing starts while it holds, and it has an API."""

import json
from pathlib import Path

import pytest

from tests.support.desk import Desk
from tests.support.waiting import until

MARK = "handrail-test-marked-by-the-stop"


@pytest.fixture(scope="module")
def team(product):
    """An agent and a lead of a team of their own, whose environments have a service and a set-up that takes long."""
    agent = Desk(product, product.agent_token("stopped", team="stopped"))
    agent.lead = Desk(product, product.person_token("stella", "lead", team="stopped"))
    environments = {
        "served": {"services": {"web": f"exec -a {MARK} sleep 600"}},
        "long": {"setup": f"exec -a {MARK} sleep 600"},
    }
    product.shell(
        "import json; from dashboard.models import Team; from workspaces.models import Environment;"
        "team = Team.objects.get(slug='stopped');"
        f"made = json.loads({json.dumps(environments)!r});"
        "[Environment.objects.create(team=team, name=name, **fields) for name, fields in made.items()]"
    )
    return agent


def marked() -> list[str]:
    """Process ids of the programs that these tests started, wherever they are."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if (folder / "cmdline").read_bytes().split(b"\0")[0] == MARK.encode():
                found.append(folder.name)
        except OSError:
            continue  # it ended meanwhile
    return found


def test_every_program_ends_and_nothing_starts_until_the_stop_is_lifted(team):
    served = team.create("served", environment="served")["key"]
    asleep = team.create("asleep")["key"]
    team.post(f"/workspaces/{asleep}/pause", expect=202)
    assert team.settled(asleep)["state"] == "paused"
    team.post("/workspaces", {"key": "long", "environment": "long"})
    command = team.post(f"/workspaces/{served}/commands", {"command": f"exec -a {MARK} sleep 600"}).json["id"]
    hidden = f"setsid -f bash -c 'exec -a {MARK} sleep 600'"
    team.post(f"/workspaces/{served}/terminals", {"argv": ["bash", "-c", f"{hidden}; sleep 600"]})
    until(lambda: len(marked()) >= 4)

    team.post("/stop", expect=403)
    told = team.lead.post("/stop", expect=200).json
    assert {name: told[name] for name in ("commands", "services", "terminals", "workspaces")} == {
        "commands": 1,
        "services": 1,
        "terminals": 1,
        "workspaces": 2,
    }
    team.lead.post("/stop", expect=409)
    until(lambda: not marked())
    assert team.settled(served)["state"] == "stopped"
    assert team.settled("long")["state"] == "failed"
    assert team.finished(command)["exit_status"] is None
    assert [row["state"] for row in team.get(f"/workspaces/{served}/terminals").json["terminals"]] == ["settled"]

    for method, path, body in (
        ("POST", f"/workspaces/{asleep}/resume", {}),
        ("POST", f"/workspaces/{asleep}/commands", {"command": "true"}),
        ("POST", f"/workspaces/{asleep}/terminals", {}),
        ("POST", "/workspaces", {"key": "another"}),
        ("POST", "/workspaces", {"key": asleep}),
        ("POST", f"/workspaces/{served}/fork", {"key": "forked"}),
    ):
        for caller in (team, team.lead):
            assert caller.call(method, path, body, 409).json["code"] == "stopped", path
    ask = {"tool": "Bash", "arguments": {"command": "ls"}}
    assert team.post("/actions", ask, expect=409).json["code"] == "stopped"
    assert team.settled(asleep)["state"] == "paused"

    team.post("/stop/lift", expect=403)
    team.lead.post("/stop/lift", expect=200)
    team.lead.post("/stop/lift", expect=409)
    assert marked() == []
    team.post(f"/workspaces/{served}/resume", expect=202)
    assert team.settled(served)["state"] == "ready"
    assert team.run(served, "echo on") == b"on\n"


def test_no_file_is_written_in_a_workspace_that_is_still_ending(team):
    """The stop of a workspace takes a moment; a write in it must not."""
    key = team.create("written")["key"]
    team.product.shell(
        "from dashboard.database import clock; from dashboard.models import Team;"
        "Team.objects.filter(slug='stopped').update(stopped_at=clock.now())"
    )
    for caller in (team, team.lead):
        assert caller.call("PUT", f"/workspaces/{key}/files/late", b"1", 409).json["code"] == "stopped"
    team.lead.post("/stop/lift", expect=200)
    team.call("PUT", f"/workspaces/{key}/files/late", b"1", 201)
