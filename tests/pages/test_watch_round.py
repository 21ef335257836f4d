"""A round of the runner's watch looks at every Run of its host."""

import logging
import os

import pytest
from asgiref.sync import async_to_sync

from dashboard.database import clock
from tests.pages.conftest import make_workspace
from workspaces.drivers.base import Address, RunRecord
from workspaces.drivers.processes import boot_id, this_host
from workspaces.models import Operation, Run, Workspace
from workspaces.runner.reconcile import liveness


@pytest.fixture
def begun(team, agent, runner, tmp_path):
    """`begun("one")`: a workspace with a Run in a sandbox, whose init has ended, and the folder of that Run."""

    runner.daemon.home = tmp_path

    def begin(key: str):
        workspace, daemon = make_workspace(team, agent, key), runner.daemon
        Workspace.objects.filter(pk=workspace.pk).update(runner=daemon.row)
        row = Run.objects.create(workspace=workspace, runner=daemon.row, started_at=clock.now(), ready_at=clock.now())
        folder = daemon.home / "runs" / str(row.pk)
        folder.mkdir(parents=True)
        who = {"host": this_host(), "boot_id": boot_id(), "uid": os.getuid(), "workspace_id": str(workspace.pk)}
        where = {"address": Address(str(folder / "socket")), "tree": str(folder), "home": str(daemon.home)}
        record = RunRecord(driver="sandbox", run_id=str(row.pk), **who, **where)
        (folder / "record.json").write_text(record.to_json())
        return workspace, folder

    return begin


def test_a_run_whose_check_breaks_down_keeps_no_other_from_being_checked(begun, runner, caplog):
    broken, folder = begun("broken")
    (folder / "lock").mkdir()  # nobody can ask that lock
    ended, _ = begun("ended")
    with caplog.at_level(logging.ERROR, logger="handrail.runner"):
        async_to_sync(liveness.watch)(runner.daemon)
    assert list(Operation.objects.values_list("workspace", "kind")) == [(ended.pk, "ended")]
    said = [(record.getMessage(), record.exc_info[0]) for record in caplog.records]
    assert said == [(f"the run {broken.runs.get().pk} could not be checked", IsADirectoryError)]
