"""Resolve a workspace's tree: host folder, running guest, or newest snapshot.

For most drivers the files are a folder of this host. A guest's files are on its own disk: they are reached through the
guest while it is up and read from the newest snapshot while it is not. To change them or read them anew at rest, a
guest is started in which nothing runs.
"""

from contextlib import asynccontextmanager
from dataclasses import replace

from dashboard.problems import conflict
from workspaces.drivers.base import FilesGone
from workspaces.models import Run, State
from workspaces.runner import snapshots
from workspaces.runner.snapshot_tree import KeptTree

GONE = "The disk or folder with its files is gone from this host."


async def readable_tree(daemon, workspace):
    """Return the tree as it can be read now; 409 if there is none.

    An archived workspace and a guest at rest give their newest snapshot.
    """
    if workspace.state == State.ARCHIVED:
        return await daemon.thread(_kept, workspace)
    driver = daemon.driver(workspace.environment.driver)
    if (tree := snapshots.tree_at_rest(driver, workspace)) is not None:
        return tree
    if (owner := await _up(daemon, driver, workspace)) is not None:
        return snapshots.with_rules(workspace, driver.tree(owner, cache=snapshots.cache_of(workspace)))
    return await daemon.thread(_kept, workspace)


async def search_path(daemon, workspace) -> str:
    """Return the PATH of a workspace's programs; "" while it is not up, and in a connected folder without a box."""
    if workspace.own_folder and not workspace.held:
        return ""
    owner = await _up(daemon, daemon.driver(workspace.environment.driver), workspace)
    return owner.address.env.get("PATH", "") if owner else ""


def _kept(workspace) -> KeptTree:
    workspace.refresh_from_db(fields=["head"])
    if workspace.head is None:
        raise conflict(f"{workspace.key} has no files to look at yet.")
    return KeptTree(snapshots.store_of(workspace), workspace.head)


async def _up(daemon, driver, workspace):
    """Return the driver's record of the open Run if it is alive, else None."""
    run = await daemon.thread(snapshots.open_run, workspace)
    owner = await daemon.owner_of(driver, run.pk) if run else None
    return owner if owner is not None and await driver.alive(owner) else None


def are_gone(driver, workspace, spec) -> bool:
    """Return whether the files, of which there is a snapshot, are gone from this host."""
    return workspace.head is not None and not workspace.own_folder and driver.lacks_files(spec)


@asynccontextmanager
async def open_tree(job, spec):
    """Yield the live tree for an operation that changes it or reads it anew.

    Starts a guest from `spec(run_id)` if the files are in a guest that is not up.
    """
    driver, workspace = job.driver, job.workspace
    if (tree := snapshots.tree_at_rest(driver, workspace)) is not None:
        yield tree
        return
    owner = await _up(job.daemon, driver, workspace)
    if owner is not None:
        yield snapshots.with_rules(workspace, driver.tree(owner, cache=snapshots.cache_of(workspace)))
        return
    asked = replace(spec(f"reader-{job.operation.pk}"), image=None)  # no program runs in it: any root will do
    if not job.brings_back and await job.thread(are_gone, driver, workspace, asked):
        raise FilesGone(f"{GONE} “Resume” brings back those of snapshot {workspace.head.number}.")
    await driver.prepare(asked)
    await job.thread(Run.objects.forget_memory, workspace.pk)  # any start makes kept memory worthless
    owner = await driver.start(asked)
    try:
        yield snapshots.with_rules(workspace, driver.tree(owner, cache=snapshots.cache_of(workspace)))
    finally:
        await driver.stop(owner, grace_s=0.0)
        await driver.clear(owner)
