"""Begin an empty home with what is kept in the workspace's environment."""

import os
import shutil

from workspaces.host import paths
from workspaces.models import HomeLayer, Workspace
from workspaces.runner import snapshots
from workspaces.runner.run_spec import uid_of
from workspaces.store import LocalTree


async def restore_layer(job):
    """Before a start: restore the layer into a home that is empty. Raise StoreError if the store lacks it.

    A home is empty at first, after an archive, and when retention has emptied it.
    """
    workspace = job.workspace
    if job.driver.capabilities.files_need_run or workspace.own_folder:
        return
    await job.thread(_put, workspace, job.driver.file_owner(uid_of(workspace).get("uid")))


def _put(workspace, owner):
    home = paths.folder_of(workspace.pk) / "home"
    if any(os.scandir(home)):
        return
    layer = HomeLayer.objects.filter(environments=workspace.environment_id).first()
    if layer is not None:
        _restore(workspace, layer, home, owner)
    if workspace.home_layer_id != (layer and layer.pk):
        workspace.home_layer = layer
        Workspace.objects.filter(pk=workspace.pk).update(home_layer=layer)


def _restore(workspace, layer: HomeLayer, home, owner):
    """Put the home in place as a whole, so that a crash leaves it empty or complete."""
    fresh, journal = home.with_name("home-fresh"), home.with_name("home-journal")
    shutil.rmtree(fresh, ignore_errors=True)
    journal.unlink(missing_ok=True)
    fresh.mkdir(mode=0o700)
    tree = LocalTree(fresh, cache=home.with_name("home-fresh-scan"))
    snapshots.store_of(workspace).restore(layer.tree_hex, tree, journal=journal, owner=owner)
    fresh.rename(home)
