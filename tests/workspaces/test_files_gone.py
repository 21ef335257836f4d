"""Files that are gone from the host come back from the newest snapshot before any program starts."""

import asyncio
import shutil

import pytest

from dashboard.problems import Problem
from workspaces.api import lookup
from workspaces.drivers.base import DriverError, FilesGone, RunSpec
from workspaces.drivers.microvm import disks
from workspaces.drivers.microvm.driver import MicroVMDriver
from workspaces.models import Operation, Phase
from workspaces.runner.operations.restore import Restore
from workspaces.runner.refusals import outcome_of
from workspaces.runner.steps.shutdown import not_taken


@pytest.fixture
def stopped(desk):
    """A workspace that is stopped: with a file of its snapshot. Yield (key, its folder on the host)."""
    key = desk.create()["key"]
    desk.run(key, "echo precious > precious; mkdir empty")
    desk.post(f"/workspaces/{key}/stop", expect=202)
    desk.settled(key)
    pk = desk.product.shell(f"from workspaces.models import *; print(Workspace.objects.get(key='{key}').pk)").strip()
    return key, desk.product.home / "workspaces" / pk


def test_a_workspace_whose_folder_is_gone_comes_up_with_its_snapshot_and_says_so(desk, stopped):
    key, folder = stopped
    shutil.rmtree(folder / "tree")
    desk.post(f"/workspaces/{key}/resume", expect=202)
    up = desk.settled(key)
    assert (up["state"], up["alarm"]) == ("ready", {}), up
    assert "is gone from this host" in up["reason"]
    assert "those of snapshot 2 of " in up["reason"]
    assert desk.run(key, "cat precious; ls -d empty") == b"precious\nempty\n"
    desk.post(f"/workspaces/{key}/stop", expect=202)
    desk.settled(key)
    desk.post(f"/workspaces/{key}/resume", expect=202)
    assert desk.settled(key)["reason"] == ""


def test_an_empty_folder_is_a_persons_edit_that_is_asked_about(desk, stopped):
    key, folder = stopped
    shutil.rmtree(folder / "tree" / "empty")
    (folder / "tree" / "precious").unlink()
    desk.post(f"/workspaces/{key}/resume", expect=202)
    up = desk.settled(key)
    assert (up["state"], up["reason"]) == ("ready", "")
    assert up["alarm"]["differ"] >= 2


def test_a_guest_lacks_its_files_only_without_a_disk_and_without_files_for_one(tmp_path):
    folder = tmp_path / "tree"
    spec = RunSpec("run", "", "key", folder, tmp_path / "home")
    lacks = MicroVMDriver.lacks_files
    driver = MicroVMDriver.__new__(MicroVMDriver)
    assert lacks(driver, spec)
    disks.guest_folder(folder).mkdir(parents=True)
    assert lacks(driver, spec)
    (disks.guest_folder(folder) / "staged").mkdir()
    assert not lacks(driver, spec)
    (disks.guest_folder(folder) / "staged").rmdir()
    disks.disk_of(folder).touch()
    assert not lacks(driver, spec)
    disks.disk_of(folder).unlink()
    (folder / "file").touch()
    assert not lacks(driver, spec)


def test_of_files_that_are_gone_it_is_not_said_that_they_are_unchanged():
    full = not_taken(OSError("No space left on device"), are_gone=False)
    assert full == "A snapshot could not be taken yet: No space left on device. The files on disk are unchanged."
    gone = not_taken(DriverError("The folder is gone. “Resume” brings back those of snapshot 3."), are_gone=True)
    assert gone == "A snapshot could not be taken: The folder is gone. “Resume” brings back those of snapshot 3."


@pytest.mark.parametrize(("error", "status"), [(FilesGone, 409), (DriverError, 503)])
def test_a_restore_of_files_that_are_gone_is_a_conflict_and_no_outage(monkeypatch, error, status):
    outcome = outcome_of(error("Its files are gone."), Restore, Operation(kind="restore", phase=Phase.STARTED))
    over = Operation(kind="restore", phase=Phase.SETTLED, outcome=outcome)

    async def wait(operation, *_, **__):
        return operation

    monkeypatch.setattr(lookup.operations, "wait_async", wait)
    with pytest.raises(Problem, match="Its files are gone") as refused:
        asyncio.run(lookup.safety_known(over))
    assert refused.value.status == status
