"""A request is answered at once while its host is silent: the operation stays due, and the answer names the host."""

from datetime import timedelta
from types import SimpleNamespace

import pytest
from asgiref.sync import async_to_sync

from dashboard.database import clock
from tests.pages.conftest import keep_tree, workspace  # noqa: F401 - a fixture
from workspaces import operations
from workspaces.models import Operation, Phase, Runner, State, Workspace

AWAY = "It waits for host-b, which has not answered since"


@pytest.fixture
def on_host_b(workspace, team, tmp_path, settings):  # noqa: F811
    """The workspace is on host-b, whose runner answers; this is host-a, and snapshots are in a bucket."""
    settings.HANDRAIL_HOST_NAME, settings.HANDRAIL_BUCKET = "host-b", ""
    keep_tree(team, tmp_path / "files", {"a": "1"})
    row = Runner.objects.create(host="host-b", heartbeat_at=clock.now(), address="127.0.0.1:1")
    Workspace.objects.filter(pk=workspace.pk).update(runner=row, state=State.READY)
    settings.HANDRAIL_HOST_NAME = "host-a"
    return Workspace.objects.get(pk=workspace.pk)


@pytest.fixture
def silent(on_host_b):
    Runner.objects.update(heartbeat_at=clock.now() - timedelta(hours=1))
    return on_host_b


@pytest.fixture
def polls(monkeypatch):
    """Ask for the host at each poll, and fail where one would be followed by another. Return the sleeps between."""
    slept = []

    def sleep(seconds):
        slept.append(seconds)
        raise AssertionError("It would wait.")

    async def sleep_async(seconds):
        sleep(seconds)

    monkeypatch.setattr(operations, "ASK_FOR_HOST_S", 0.0)
    monkeypatch.setattr(operations, "time", SimpleNamespace(sleep=sleep, monotonic=operations.time.monotonic))
    monkeypatch.setattr(operations, "asyncio", SimpleNamespace(sleep=sleep_async))
    return slept


@pytest.mark.parametrize(
    ("address", "body"),
    [
        ("snapshots", {"label": "before"}),
        ("bundle", None),
        ("reset", {}),
        ("snapshots/1/restore", {}),
    ],
)
def test_what_waits_for_its_host_is_answered_at_once(silent, polls, api, token_of, alice, address, body):
    client, at = api(token_of(alice)), f"/api/v1/workspaces/{silent.key}/{address}"
    if address == "reset":
        Workspace.objects.filter(pk=silent.pk).update(baseline=silent.head)
    answer = client.get(at) if body is None else client.post(at, body, "application/json")
    assert polls == []
    asked = Operation.objects.get()
    assert (asked.workspace_id, asked.phase) == (silent.pk, Phase.DUE)
    if answer.status_code == 202:
        assert (answer.json()["operation"], answer.json()["state"]) == (str(asked.pk), "due")
    else:
        assert (answer.status_code, answer.json()["operation"]) == (503, str(asked.pk))
        assert answer.json()["detail"].startswith(AWAY)


@pytest.fixture
def due(on_host_b):
    return Operation.objects.create(kind="snapshot", workspace=on_host_b, due_at=clock.now(), args={}, by={})


def test_a_host_that_answers_is_waited_for(due, polls):
    with pytest.raises(AssertionError, match="It would wait"):
        operations.wait(due, 60)
    assert len(polls) == 1


def test_an_approved_action_waits_for_its_operation_also_while_the_host_is_away(due, silent, polls):
    assert async_to_sync(operations.wait_async)(due, 60).phase == Phase.DUE
    with pytest.raises(AssertionError, match="It would wait"):
        async_to_sync(operations.wait_async)(due, 60, patient=True)
    assert len(polls) == 1
