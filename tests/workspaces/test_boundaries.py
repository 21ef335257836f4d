"""Before a workspace that is up gets more access, its files are kept as they are."""

import json

import pytest


@pytest.fixture
def allow(product, lead_token):
    def call(key, host):
        wish = {"host": host}
        answer = product.call("POST", f"/api/v1/workspaces/{key}/network/allow", lead_token, wish)
        assert answer.status == 201, answer.body

    return call


def newest(desk, key) -> tuple:
    snapshot = desk.get(f"/workspaces/{key}/snapshots").json["snapshots"][0]
    return snapshot["number"], snapshot["kind"], snapshot["label"]


def test_a_host_is_allowed_after_a_snapshot_unless_nothing_changed(desk, allow):
    key = desk.create()["key"]
    allow(key, "first.example.org")
    assert newest(desk, key)[:2] == (1, "setup")  # nothing has changed since
    desk.run(key, "echo work > file")
    allow(key, "second.example.org")
    assert newest(desk, key) == (2, "boundary", "before second.example.org was allowed")
    assert desk.get(f"/workspaces/{key}/files/file?snapshot=2").body == b"work\n"
    allow(key, "third.example.org")
    assert newest(desk, key)[0] == 2


def test_an_agent_gets_it_after_a_snapshot_too(desk, product, lead_token):
    key = desk.create()["key"]
    desk.run(key, "echo work > file")
    action = desk.post(f"/workspaces/{key}/network/allow", {"host": "example.org"}, expect=202).json["action"]
    desk.settled(key)
    assert newest(desk, key)[:2] == (2, "asked")  # of the files as they were when it was asked
    desk.run(key, "echo more > file")
    answer = {"verdict": "approve", "digest": action["digest"]}
    assert product.call("POST", f"/api/v1/actions/{action['id']}/decision", lead_token, answer).status == 200
    for _ in range(6):
        found = desk.get(f"/actions/{action['id']}?wait=10").json
        if found["status"] not in ("pending", "approved", "running"):
            break
    assert found["status"] == "succeeded"
    assert newest(desk, key) == (3, "boundary", "before example.org was allowed")


def test_a_workspace_that_is_not_up_has_its_end(desk, allow):
    key = desk.create()["key"]
    desk.run(key, "echo work > file")
    desk.post(f"/workspaces/{key}/stop", expect=202)
    desk.settled(key)
    allow(key, "example.org")
    assert newest(desk, key)[:2] == (2, "end")


def test_another_environment_applies_after_a_snapshot(desk, product):
    name = "boundaries"
    make = (
        "from dashboard.models import Actor, Team; from workspaces.models import Environment, Workspace;"
        "from workspaces.services import environments; team = Team.objects.get(slug='main');"
    )
    product.shell(f"{make} Environment.objects.create(team=team, name={name!r})")
    key = desk.create(environment=name)["key"]
    desk.run(key, "echo work > file")
    product.shell(
        f"{make} by = Actor.system('test'); workspace = Workspace.objects.get(key={json.dumps(key)});"
        "environments.save(team, workspace.environment.name, {'variables': {'MODE': 'new'}},"
        " base=workspace.environment, by=by); environments.adopt(workspace, by=by)"
    )
    assert newest(desk, key) == (2, "boundary", f"before version 2 of {name}")
    assert desk.get(f"/workspaces/{key}/files/file?snapshot=2").body == b"work\n"
