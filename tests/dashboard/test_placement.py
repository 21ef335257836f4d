"""Where a new workspace goes among several hosts: what a host must have, what is said of each, and what waits."""

from datetime import timedelta

import pytest

from dashboard.database import clock
from dashboard.ops import after_restore
from tests.pages.conftest import make_workspace, workspace  # noqa: F401 - fixtures
from workspaces import operations
from workspaces.models import Environment, Operation, Run, Runner, State, StoreIdentity, Workspace
from workspaces.provisioning import placement

SANDBOX = {"available": True, "isolation": "namespace"}
GIB = 1024**3


@pytest.fixture
def host(db):
    """`host("a", …)`: the row of a host that answers and can run sandboxes."""

    def make(name, *, drivers=None, **fields):
        capabilities = {"sandbox": SANDBOX} if drivers is None else drivers
        fields = {"heartbeat_at": clock.now(), "capabilities": capabilities} | fields
        return Runner.objects.create(host=name, **fields)

    return make


@pytest.fixture
def client(api, token_of, alice):
    return api(token_of(alice))


def ask(client, key="new", **wish):
    return client.post("/api/v1/workspaces", {"key": key} | wish, content_type="application/json")


def placed(key="new"):
    found = Workspace.objects.select_related("runner").get(key=key)
    return found.runner and found.runner.host


def test_with_one_host_nothing_is_placed_before_its_runner_begins(client, host, team):
    host("a", capabilities={})
    answer = ask(client)
    assert (answer.status_code, answer.json()["place"]) == (201, None)
    found = Workspace.objects.get()
    assert operations.is_placed_on(Operation.objects.get(), Runner.objects.get())
    placement.bind(found.pk, Runner.objects.get().pk)
    found.refresh_from_db()
    assert (found.runner.host, found.lead_epoch) == ("a", 1)
    placement.bind(found.pk, Runner.objects.get().pk)
    assert Workspace.objects.get().lead_epoch == 1
    place = client.get("/api/v1/workspaces/new").json()["place"]
    assert (place["host"], place["since"] is not None) == ("a", True)


def test_a_new_workspace_goes_where_its_driver_is_and_says_since_when(client, host, team):
    host("a", drivers={"sandbox": {"available": False, "reason": "There is no bubblewrap."}})
    host("b")
    answer = ask(client)
    assert (answer.status_code, answer.json()["place"]["host"]) == (201, "b")
    assert Operation.objects.get().runner.host == "b"
    assert Workspace.objects.get().lead_epoch == 1


def test_the_host_with_the_least_promised_gets_it_and_what_is_about_to_start_counts(client, host, team):
    for name in ("a", "b"):
        host(name, room={"runs": 10, "memory_bytes": 8 * GIB, "cpus": 8})
    for key in ("one", "two", "three", "four"):
        assert ask(client, key).status_code == 201
    assert sorted(placed(key) for key in ("one", "two", "three", "four")) == ["a", "a", "b", "b"]


def test_when_nothing_fits_it_is_said_why_of_each_host(client, host, team, workspace):  # noqa: F811
    tight = Environment.objects.create(
        team=team, name="tight", driver="sandbox", minimum_isolation="namespace", limits={"memory_bytes": 6 * GIB}
    )
    up = host("a-full", room={"memory_bytes": 8 * GIB})
    Workspace.objects.filter(pk=workspace.pk).update(environment=tight, runner=up)
    Run.objects.create(workspace=workspace, runner=up, started_at=clock.now())
    host("b-weak", drivers={"sandbox": {"available": True, "isolation": "none"}})
    host("c-lacks", drivers={"sandbox": {"available": False, "reason": "There is no bubblewrap."}})
    host("d-leaves", draining_at=clock.now())
    host("e-lost", lost_at=clock.now())
    host("f-disk", room={"is_short_of_disk": True})
    host("g-web", parts=["web"])
    refused = ask(client, environment="tight")
    assert (refused.status_code, refused.json()["code"]) == (503, "nothing_fits")
    why = refused.json()["hosts"]
    assert why.pop("d-leaves").startswith("is drained since ")
    assert why.pop("e-lost").startswith("was declared lost at ")
    assert why == {
        "a-full": "is full: of 8.0 GB memory, 6.0 GB are reserved for running workspaces, and this one needs 6.0 GB",
        "b-weak": "offers isolation none, and namespace is the least",
        "c-lacks": "does not have the driver sandbox: There is no bubblewrap",
        "f-disk": "has too little free disk space",
        "g-web": "runs no workspaces",
    }
    assert "c-lacks does not have the driver sandbox: There is no bubblewrap." in refused.json()["detail"]
    assert not Workspace.objects.filter(key="new").exists()


def test_a_team_whose_snapshots_are_in_a_folder_stays_on_that_host(client, host, team):
    host("a"), host("b")
    StoreIdentity.objects.create(team=team, store_id="x", host="b")
    assert [ask(client, key).json()["place"]["host"] for key in ("one", "two")] == ["b", "b"]
    Runner.objects.filter(host="b").update(draining_at=clock.now())
    why = ask(client).json()["hosts"]
    assert why["a"] == "does not have the snapshots of its team, which are in a folder of b"


def test_while_the_only_fit_host_is_silent_it_waits_and_says_so_and_then_gets_its_place(
    client, host, team, browser_of, alice
):
    here = host("a", drivers={})
    there = host("b", heartbeat_at=clock.now() - timedelta(hours=1))
    assert (ask(client).status_code, placed()) == (201, None)
    operation = Operation.objects.get()
    assert not operations.is_placed_on(operation, here)
    waiting = client.get("/api/v1/workspaces/new/operations").json()["operations"][0]["waits_for"]
    assert waiting.startswith("No host can take new now. a does not have the driver sandbox. b has not answered since ")
    page = browser_of(alice).get(f"/w/{team.slug}/new/operations/{operation.pk}/").content.decode()
    assert "a does not have the driver sandbox." in page
    Runner.objects.update(heartbeat_at=clock.now())
    operation.refresh_from_db()
    assert not operations.is_placed_on(operation, here)  # it belongs to b now
    operation.refresh_from_db()
    assert (placed(), operation.runner, operation.progress) == ("b", there, {})


def test_a_creation_on_a_host_that_falls_silent_before_it_begins_goes_to_another(client, host, team):
    one, other = host("a"), host("b", draining_at=clock.now())
    ask(client)
    assert placed() == "a"
    Runner.objects.filter(pk=one.pk).update(heartbeat_at=clock.now() - timedelta(minutes=1))
    Runner.objects.filter(pk=other.pk).update(draining_at=None)
    operations.requeue_expired_claims(other)
    operation = Operation.objects.get()
    assert (placed(), operation.runner) == (None, None)
    assert operations.is_placed_on(operation, other)
    assert (placed(), Workspace.objects.get().lead_epoch) == ("b", 3)


def test_an_archived_workspace_comes_back_where_there_is_room(client, host, team, workspace, settings):  # noqa: F811
    settings.HANDRAIL_BUCKET = "s3://bucket"
    one, other = host("a", draining_at=clock.now()), host("b")
    Workspace.objects.filter(pk=workspace.pk).update(state=State.ARCHIVED, runner=one, placed_at=clock.now())
    assert client.post(f"/api/v1/workspaces/{workspace.key}/resume", content_type="application/json").status_code == 202
    assert (placed(workspace.key), Operation.objects.get(kind="resume").runner) == ("b", other)


def test_a_restored_database_leads_with_higher_epochs_than_hosts_have_seen(workspace):  # noqa: F811
    Workspace.objects.update(lead_epoch=3)
    after_restore._lead_anew()
    assert Workspace.objects.get().lead_epoch == 1003
