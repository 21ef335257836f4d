"""Where the files of a workspace are now: the one place that knows.

Of most drivers they are a folder of this host. Those of a guest are on a disk of its own: reached through the guest
while it is up, read from the newest snapshot while it is not, and for what must change or be read anew at rest a guest
is started in which nothing runs.
"""

from contextlib import asynccontextmanager
from dataclasses import replace

from dashboard.problems import conflict
from workspaces.runner import snapshots
from workspaces.runner.kept import KeptTree


async def to_look_at(daemon, workspace):
    """The tree as it can be looked at now, for single entries and for the store."""
    driver = daemon.driver(workspace.environment.driver)
    if not driver.capabilities.guest_files:
        return snapshots.host_tree(workspace)
    if (owner := await _up(daemon, driver, workspace)) is not None:
        return driver.tree(owner, cache=snapshots.cache_of(workspace))
    return await daemon.thread(_kept, workspace)


def _kept(workspace) -> KeptTree:
    workspace.refresh_from_db(fields=["head"])
    if workspace.head is None:
        raise conflict(f"{workspace.key} has no files to look at yet.")
    return KeptTree(snapshots.store_of(workspace), workspace.head)


async def _up(daemon, driver, workspace):
    """The driver's record of the open Run, if that is alive."""
    run = await daemon.thread(snapshots.open_run, workspace)
    owner = await daemon.owner_of(driver, run.pk) if run else None
    return owner if owner is not None and await driver.alive(owner) else None


@asynccontextmanager
async def to_work_on(job, spec):
    """The tree for an effect that changes it or reads it anew; of `spec(run_id)` a guest is started if need be."""
    driver, workspace = job.driver, job.workspace
    if not driver.capabilities.guest_files:
        yield snapshots.host_tree(workspace)
        return
    owner = await _up(job.daemon, driver, workspace)
    if owner is not None:
        yield driver.tree(owner, cache=snapshots.cache_of(workspace))
        return
    asked = replace(spec(f"reader-{job.effect.pk}"), image=None)  # no program runs in it: any root will do
    await driver.prepare(asked)
    owner = await driver.start(asked)
    try:
        yield driver.tree(owner, cache=snapshots.cache_of(workspace))
    finally:
        await driver.stop(owner, grace_s=0.0)
        await driver.clear(owner)
