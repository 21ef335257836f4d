"""Ephemeral environments: what is said before, when a workspace is stopped and archived, and what is refused."""

import json
from datetime import timedelta
from functools import partial

import pytest

from dashboard.database import clock
from workspaces.models import Environment, Operation, Phase, Run, Runner, State, Workspace
from workspaces.runner.sweeps import Sweep, run_due
from workspaces.services import idle

from .conftest import make_workspace

AT = "/w/payments/repo-task-1/"


@pytest.fixture
def host(db):
    return Runner.objects.create(host="here", heartbeat_at=clock.now())


@pytest.fixture
def passing(workspace, host):
    """A workspace of an ephemeral environment, which is up on `host`."""
    Environment.objects.filter(pk=workspace.environment_id).update(ephemeral=True)
    Workspace.objects.filter(pk=workspace.pk).update(runner=host)
    Run.objects.create(workspace=workspace, runner=host, started_at=clock.now() - timedelta(hours=1))
    return workspace


def ended(workspace, **fields):
    """End its run, as a stop does."""
    Run.objects.filter(workspace=workspace).update(ended_at=clock.now())
    Workspace.objects.filter(pk=workspace.pk).update(state=State.STOPPED, **fields)


def sweep(host):
    run_due([Sweep(partial(idle.sweep, host), partial(idle.due, host))])


def asked() -> list[tuple]:
    return list(Operation.objects.order_by("created_at").values_list("kind", "by__label"))


def test_its_page_says_what_happens_before_it_does(passing, alice, browser_of, read):
    words = "its changes since setup are kept as a patch and a snapshot, and its files leave the host"
    assert words in read(browser_of(alice), AT)
    Environment.objects.update(ephemeral=False)
    assert words not in read(browser_of(alice), AT)


def test_an_idle_one_is_stopped_where_others_are_paused(passing, host, team, agent):
    lasting = Environment.objects.create(team=team, name="lasting")
    other = make_workspace(team, agent, "other", runner=host)
    Run.objects.create(workspace=other, runner=host, started_at=clock.now() - timedelta(days=1))
    Workspace.objects.filter(pk=other.pk).update(environment=lasting)
    Workspace.objects.update(last_active_at=clock.now() - timedelta(days=1))
    sweep(host)
    found = {operation.workspace.key: operation.kind for operation in Operation.objects.select_related("workspace")}
    assert found == {"repo-task-1": "stop", "other": "pause"}


def test_a_person_cannot_pause_it(passing, alice, browser_of, read, api, token_of):
    read_page = read(browser_of(alice), AT)
    assert ("Pause" in read_page, "Stop" in read_page) == (False, True)
    answer = api(token_of(alice)).post("/api/v1/workspaces/repo-task-1/pause")
    assert (answer.status_code, "can't be paused. Stop it" in answer.json()["detail"]) == (409, True)
    assert asked() == []


def test_a_workspace_paused_before_it_was_ephemeral_is_stopped_at_once(passing, host):
    ended(passing)
    Workspace.objects.update(state=State.PAUSED, last_active_at=clock.now())
    sweep(host)
    assert asked() == [("stop", "idle")]


def test_once_its_run_has_ended_it_is_archived_once(passing, host):
    sweep(host)
    assert asked() == []
    ended(passing)
    sweep(host)
    assert asked() == [("put_away", "ephemeral")]
    Operation.objects.update(phase=Phase.SETTLED, outcome={"ok": False, "reason": "A snapshot can't hold x."})
    sweep(host)
    assert len(asked()) == 1  # it could not be archived: nobody tries until it ran again
    Run.objects.filter(workspace=passing).update(ended_at=clock.now() + timedelta(seconds=1))
    sweep(host)
    assert len(asked()) == 2


def test_it_is_not_archived_under_a_resume_or_without_its_last_snapshot(passing, host):
    ended(passing, missing_snapshot="The disk is full.")
    sweep(host)
    assert asked() == []
    Workspace.objects.update(missing_snapshot="")
    Operation.objects.create(workspace=passing, kind="resume", exclusive=True, due_at=clock.now())
    sweep(host)
    assert [kind for kind, _ in asked()] == ["resume"]


def test_the_setting_is_saved_and_shown_by_api_and_page(team, api, token_of, lena, browser_of, read):
    def save(fields):
        return api(token_of(lena)).post(
            "/api/v1/environments", json.dumps({"name": "review"} | fields), content_type="application/json"
        )

    assert save({}).json()["ephemeral"] is False
    made = save({"ephemeral": True}).json()
    assert (made["version"], made["ephemeral"]) == (2, True)
    newest = Environment.objects.get(name="review", version=2)
    assert "its changes since setup are kept" in read(browser_of(lena), f"/environments/{newest.pk}/")
    page = browser_of(lena).get(f"/environments/{newest.pk}/edit/")
    assert page.context["form"].initial["ephemeral"] is True
    assert "Ephemeral" in read(browser_of(lena), "/workspaces/new/")


def test_a_connected_folder_is_never_ephemeral(team, api, token_of, lena):
    Environment.objects.create(team=team, name="folder-mine", driver="folder")
    answer = api(token_of(lena)).post(
        "/api/v1/environments",
        json.dumps({"name": "folder-mine", "ephemeral": True}),
        content_type="application/json",
    )
    assert (answer.status_code, "can't be ephemeral" in answer.json()["detail"]) == (422, True)
