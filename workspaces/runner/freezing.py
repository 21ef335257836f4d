"""Keep the programs of a workspace from running while its files are replaced."""

from contextlib import asynccontextmanager

from dashboard.workers.failpoints import failpoint
from workspaces.drivers.base import DriverError


@asynccontextmanager
async def frozen_programs(job, owner):
    """Freeze the programs of a Run (None: there is none), and thaw them at the end.

    A workspace that was frozen for another reason stays frozen; after a runner crash the freeze can only be that of the
    same operation, so it is thawed.
    """
    freezes = owner is not None and job.driver.capabilities.freeze and not job.workspace.vitals.get("frozen")
    if freezes:
        await job.driver.freeze(owner)
        failpoint("restore.frozen")
    try:
        yield
    finally:
        if freezes:
            await unless_ended(job, owner, job.driver.thaw(owner))


async def unless_ended(job, owner, asked):
    """Await a driver call; return None if it failed because the Run has ended, which does not affect the files."""
    try:
        return await asked
    except DriverError:
        if await job.driver.alive(owner):
            raise
        return None
