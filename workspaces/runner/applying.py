"""Make a workspace's live files those that a rehearsal left."""

from dashboard.problems import conflict
from dashboard.workers.failpoints import failpoint
from workspaces.models import Rehearsal
from workspaces.operations.needs_approval import HOOK_FILES
from workspaces.runner import snapshots
from workspaces.runner.freezing import frozen_programs
from workspaces.runner.refusals import unclear
from workspaces.services.rehearsals import is_same

CHANGED = "The workspace's files have changed since it was tried. Try it again."


async def apply(job, rehearsal: Rehearsal, *, label: str, consume):
    """Apply the rehearsal's tree, after a snapshot with this label.

    `consume(snapshot)` is awaited once that was found to hold the files that the rehearsal was made from, before the
    first is changed; None continues after a runner crash, when they may also be those that it left. Problem 409 if
    they are neither.
    """
    owner = await job.owner()
    failpoint("apply.begun")
    async with job.lock(), job.open_tree() as tree, frozen_programs(job, owner):
        await job.recover_tree()
        if consume:
            # Of one reading of the files: a folder's own programs are not frozen, and may write between two.
            snapshot = await job.snapshot("action", label)
            if not await _is_same(job, snapshot.tree_hex, rehearsal.base_hex):
                raise conflict(CHANGED)
            await consume(snapshot)
        else:
            live = await job.thread(snapshots.scan, job.workspace, tree)
            if await _is_same(job, live.tree, rehearsal.tree_hex):
                return
            if not await _is_same(job, live.tree, rehearsal.base_hex):
                raise unclear(CHANGED)
        failpoint("apply.consumed")
        store = await job.thread(snapshots.store_of, job.workspace)
        journal = snapshots.journal_of(job.workspace)
        await job.thread(store.restore, rehearsal.tree_hex, tree, journal=journal, keep=HOOK_FILES)
        failpoint("apply.placed")
        placed = await job.thread(snapshots.scan, job.workspace, tree)
        if not await _is_same(job, placed.tree, rehearsal.tree_hex):
            raise unclear("The files are not all as they were shown.")


async def _is_same(job, one: str, other: str) -> bool:
    """Return whether two trees differ in nothing but times."""
    return await job.thread(is_same, job.workspace, one, other)
