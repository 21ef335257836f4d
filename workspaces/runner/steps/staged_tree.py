"""Reach files that lie in a folder beside a workspace's own: those that arrive in a move, or came back too late."""

from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

from workspaces.runner.job import Job
from workspaces.runner.run_spec import spec_of
from workspaces.store import LocalTree


@asynccontextmanager
async def staged_tree(job: Job, place: Path):
    """Yield the tree of `place`, which has `tree` and `home`, as the workspace's driver keeps it.

    That is in a guest, which is started to reach it, or in the folder itself. Nobody leads the workspace there.
    """
    driver = job.driver
    spec = spec_of(job.workspace, f"reader-{job.operation.pk}", tree=place / "tree", home=place / "home")
    spec = replace(spec, image=None, lead=0)  # no program runs in it: any root will do
    await driver.prepare(spec)
    if not driver.capabilities.files_need_run:
        yield LocalTree(place / "tree", cache=place / "scan")
        return
    owner = await driver.start(spec)
    try:
        yield driver.tree(owner, cache=place / "scan")
    finally:
        await driver.stop(owner, grace_s=0.0)
        await driver.clear(owner)
