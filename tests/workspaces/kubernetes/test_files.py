"""The files of a pod: its workspace and its home are served by a program each."""

import errno

import pytest

from tests.support.waiting import until
from workspaces.drivers.base import DriverError
from workspaces.drivers.init_client import InitClient, InitRefused
from workspaces.drivers.kubernetes import driver as kubernetes_driver


def test_each_folder_has_a_server_that_is_asked_about_by_itself(pod):
    """Else a home whose server is busy for seconds counts as lost, where the workspace is empty and has none."""
    run = pod()
    home = run.driver._tree_of(run.owner, "home")
    with home.opened(), InitClient(run.owner.address.socket) as init:
        init.request("is_serving", folder="home")
        with pytest.raises(InitRefused, match="the file server has ended"):
            init.request("is_serving", folder="tree")
    with run.driver.tree(run.owner).opened(), InitClient(run.owner.address.socket) as init:
        init.request("is_serving")


def test_a_pod_whose_files_nobody_brings_any_more_is_ended(pod):
    """As after a kill of the runner between the keeper's greeting and the last file."""
    run = pod()
    mark = run.driver._folder(run.spec.run_id) / kubernetes_driver.BRINGING
    mark.touch()
    assert not run.again().driver.lives(run.owner)
    assert run.again().alive(run.owner) is False
    until(lambda: run.driver.pods.find(run.spec.run_id) is None)


def test_a_full_disk_while_files_are_brought_leaves_no_pod(pod, monkeypatch):
    run = pod()
    run.sh("printf kept > kept")
    run.end()

    def is_full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(kubernetes_driver.files, "put", is_full)
    with pytest.raises((OSError, DriverError), match="No space left"), run.again_up():
        pass
    monkeypatch.undo()
    assert [record.run_id for record in run.do.records()] == []
    until(lambda: run.driver.pods.find(f"{run.spec.run_id}-again") is None)
    with run.again_up() as again:
        assert again.sh("cat kept")[0] == "kept"
