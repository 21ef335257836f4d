"""End a workspace, and keep all of its files in a snapshot that was read back, before they leave their place."""

import os

from workspaces.models import EndCode, State
from workspaces.runner import snapshots
from workspaces.runner.job import Job
from workspaces.runner.refusals import Refused
from workspaces.runner.steps.compare import compare_files
from workspaces.runner.steps.shutdown import bring_down, discard_memory, mark_stopped
from workspaces.store import StoreError

MAX_NAMED = 5  # paths in a message


async def end(job: Job, code: EndCode, why: str):
    """End its programs and what is kept of their memory; it is stopped afterwards, with the reason if that went bad.

    `why` says what became of the memory.
    """
    workspace = job.workspace
    missing_snapshot = workspace.missing_snapshot
    if workspace.state == State.READY:
        missing_snapshot = await bring_down(job, code)
    else:
        await discard_memory(job, why)
    await job.thread(mark_stopped, job, missing_snapshot)


async def keep_all(job: Job, label: str, what: str):
    """Take a snapshot if the newest one is not what the files are, then compare and read every byte of it.

    Raise StoreError, or Refused for files that no snapshot can hold: nothing was `what` then, a past participle.
    """
    workspace = job.workspace
    async with job.lock(), job.open_tree() as tree:
        await job.recover_tree()
        proof = await job.thread(compare_files, workspace, tree, full=True, lend=False)
        if workspace.head is None or proof["differ"] or workspace.missing_snapshot:
            await job.snapshot("end", label, thorough=True)
            proof = await job.thread(compare_files, workspace, tree, full=True, lend=False)
        if proof["differ"]:
            raise StoreError(f"{proof['differ']:,} entries differ from the snapshot that was just taken")
        await job.progress(step="verify")
        store = await job.thread(snapshots.store_of, workspace)
        how = {"progress": job.watch(step="verify")["progress"]}
        lacking = await job.thread(store.read_back, workspace.head.tree_hex, **how)
    if lacking:
        named = ", ".join(os.fsdecode(path) for path in lacking[:MAX_NAMED])
        more = f" and {len(lacking) - MAX_NAMED:,} more" if len(lacking) > MAX_NAMED else ""
        raise Refused(f"Nothing was {what}: a snapshot can't hold {named}{more}, so these would be lost.")
