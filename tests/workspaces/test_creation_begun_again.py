"""A creation whose runner stopped is begun again by itself, if no program of people can have run, and not for ever."""

from types import SimpleNamespace

import pytest
from asgiref.sync import async_to_sync, sync_to_async

from dashboard.database import clock
from dashboard.models import Actor
from tests.pages.conftest import workspace  # noqa: F401 - a fixture
from workspaces.models import Environment, Operation, Phase, Run, Runner, Workspace
from workspaces.runner.job import Job
from workspaces.runner.operations.create import Create
from workspaces.runner.refusals import Refused


class Daemon:
    """As much of a runner as a recovery asks for, with a driver of which nothing is left."""

    def driver(self, name):
        return SimpleNamespace(records=self._none)

    async def _none(self):
        return []

    async def thread(self, function, *args, **kwargs):
        return await sync_to_async(function)(*args, **kwargs)


class Begun(Create):
    """A creation that makes nothing."""

    async def perform(self, job):
        return {"ok": True, "note": ""}


@pytest.fixture
def recover(workspace):  # noqa: F811
    """`recover(setup, **progress)`: recover a creation that had come so far, and return its row."""
    runner = Runner.objects.create(host="here", heartbeat_at=clock.now())
    Run.objects.create(workspace=workspace, runner=runner, started_at=clock.now())

    def once(setup: str = "", source: dict | None = None, **progress) -> Operation:
        Environment.objects.filter(pk=workspace.environment_id).update(setup=setup)
        Workspace.objects.filter(pk=workspace.pk).update(source=source or {})
        fields = {"phase": Phase.STARTED, "due_at": clock.now(), "args": {}, "by": Actor.system("test").as_json}
        row = Operation.objects.create(kind="create", workspace=workspace, progress=progress, **fields)
        async_to_sync(Begun().recover)(Job(Daemon(), row))
        return Operation.objects.get(pk=row.pk)

    return once


@pytest.mark.parametrize(("setup", "step"), [("", "snapshot"), ("make", "files"), ("make", "pull")])
def test_what_only_handrail_did_is_done_again(recover, setup, step):
    assert recover(setup, step=step).progress == {"step": step, "begun": 2}
    assert Run.objects.get().end_code == "runner_stopped"


@pytest.mark.parametrize(
    ("setup", "source", "progress"),
    [
        ("make", {}, {"step": "setup"}),
        ("make", {}, {"step": "snapshot"}),
        ("", {"fork": {"checkpoint": "1"}}, {"step": "files"}),
        ("", {}, {"step": "files", "begun": 3}),
    ],
    ids=["setup", "after-setup", "checkpoint", "third-time"],
)
def test_what_may_have_run_programs_of_people_or_stop_the_runner_is_not(recover, setup, source, progress):
    with pytest.raises(Refused, match="Try again to start over"):
        recover(setup, source, **progress)
    assert Run.objects.get().ended_at is None  # until the operation is settled
