"""The environment of a connected folder: nobody can ask for another workspace of it, in any way."""

import json

import pytest

from workspaces.drivers.base import DriverError
from workspaces.models import Environment, Snapshot, State, Workspace
from workspaces.runner.run_spec import spec_of


@pytest.fixture
def folder(team, agent, tmp_path):
    """A connected folder that the agent is bound to, with a snapshot."""
    environment = Environment.objects.create(
        team=team, name="folder-calc", driver="folder", minimum_isolation="none", setup="make deps"
    )
    made = Workspace.objects.create(
        team=team,
        key="calc",
        environment=environment,
        state=State.READY,
        source={"path": str(tmp_path)},
        created_by_agent=agent,
    )
    made.head = Snapshot.objects.create(
        workspace=made, number=1, tree=b"\0" * 32, kind="setup", entries=0, bytes=0, added_bytes=0, skipped=[],
        created_at=made.created_at, by={},
    )  # fmt: skip
    made.save()
    return made


@pytest.fixture
def send(api):
    def post(token, path, body):
        response = api(token).post(f"/api/v1{path}", json.dumps(body), content_type="application/json")
        return response.status_code, response.json()["detail"]

    return post


def test_no_agent_can_ask_for_one(folder, send, agent_token):
    wish = {"key": "mine", "environment": "folder-calc"}
    assert send(agent_token, "/workspaces", wish) == (422, "There is no environment named 'folder-calc'.")
    assert send(agent_token, "/workspaces", wish | {"driver": "folder"})[0] == 422
    assert list(Workspace.objects.values_list("key", flat=True)) == ["calc"]


def test_a_person_gets_the_command_that_connects_a_folder(folder, send, token_of, alice):
    status, detail = send(token_of(alice), "/workspaces", {"key": "mine", "environment": "folder-calc"})
    assert (status, "manage.py connect" in detail) == (422, True)
    assert list(Workspace.objects.values_list("key", flat=True)) == ["calc"]


def test_a_connected_folder_has_no_fork(folder, send, agent_token, token_of, alice):
    for token in (agent_token, token_of(alice)):
        status, detail = send(token, "/workspaces/calc/fork", {"key": "mine"})
        assert (status, "connected folder" in detail) == (409, True)
    assert list(Workspace.objects.values_list("key", flat=True)) == ["calc"]


def test_agents_do_not_see_the_environment(folder, api, agent_token, token_of, vera):
    def names(token):
        return [e["name"] for e in api(token).get("/api/v1/environments").json()["environments"]]

    assert names(agent_token) == []
    assert names(token_of(vera)) == ["folder-calc"]


def test_the_page_of_a_new_workspace_does_not_offer_it(folder, browser_of, alice):
    assert "folder-calc" not in browser_of(alice).get("/workspaces/new/").content.decode()


@pytest.mark.parametrize(
    "wish", [{"name": "another", "driver": "folder"}, {"name": "folder-calc", "driver": "sandbox"}]
)
def test_no_other_environment_gets_the_driver_and_it_keeps_its_own(folder, send, token_of, lena, wish):
    assert send(token_of(lena), "/environments", wish)[0] == 422
    assert list(Environment.objects.values_list("name", "driver")) == [("folder-calc", "folder")]


def test_an_agent_brings_none_back_from_the_trash(folder, send, agent_token):
    Workspace.objects.update(trashed_at=folder.created_at, purge_at=folder.created_at)
    assert send(agent_token, "/workspaces/calc/untrash", {})[0] == 403
    assert Workspace.objects.in_trash().count() == 1


def test_the_driver_starts_nothing_where_no_folder_was_connected(folder):
    folder.source = {}
    with pytest.raises(DriverError):
        spec_of(folder, "run")
