"""The files of a pod: its workspace and its home are served by a program each."""

import pytest

from workspaces.drivers.init_client import InitClient, InitRefused


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
