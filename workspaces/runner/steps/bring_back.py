"""Restore the files of an archived workspace, or of one whose files are gone, from its newest snapshot.

It stays `archived` until all files are back and were compared. So a crash loses nothing.
"""

from dashboard.models import Team
from dashboard.workers.failpoints import failpoint
from workspaces import lifecycle
from workspaces.host import paths
from workspaces.models import ReasonCode, State, Workspace
from workspaces.runner import snapshots
from workspaces.runner.job import Job
from workspaces.runner.refusals import Refused
from workspaces.runner.run_spec import spec_of
from workspaces.runner.steps.compare import compare_files
from workspaces.store import StoreError


async def bring_back(job: Job, lost: str = ""):
    """Restore the files of a workspace from its newest snapshot and compare every byte; it is stopped then.

    It was archived, or its files are gone: `lost` says so. Raise StoreError or DriverError; its state stays, and its
    snapshots are unchanged.
    """
    workspace, job.brings_back = job.workspace, True
    if workspace.head is None:
        raise Refused("Its files were in a snapshot that is lost, so it can't be resumed.", ReasonCode.SNAPSHOT_MISSING)
    await job.progress(step="restore")
    await job.thread(paths.make_folders, workspace)
    if not job.driver.capabilities.files_need_run:  # `open_tree` prepares a guest
        await job.driver.prepare(spec_of(workspace, f"reader-{job.operation.pk}"))  # its folders get their owner
    async with job.lock(), job.open_tree() as tree:
        await job.recover_tree()
        store = await job.thread(snapshots.store_of, workspace)
        how = {"progress": job.watch(step="restore")["progress"], "journal": snapshots.journal_of(workspace)}
        await job.thread(store.restore, workspace.head.tree_hex, tree, **how)
        failpoint("archive.back")
        proof = await job.thread(compare_files, workspace, tree, full=True, lend=False)
    if proof["differ"]:
        raise StoreError(f"{proof['differ']:,} entries are not as in snapshot {proof['snapshot']}")
    await job.thread(_mark_back, job, proof, lost)
    job.brings_back = False
    failpoint("archive.returned")


def _mark_back(job: Job, proof: dict, lost: str):
    with Team.objects.turn(job.workspace.team_id):
        Workspace.objects.filter(pk=job.workspace.pk).update(state=State.STOPPED, reason=lost, missing_snapshot="")
        data = {name: proof[name] for name in ("snapshot", "entries", "differ")}
        if lost:
            lifecycle.record(job.workspace, job.by, "workspace.files_lost", data | {"reason": lost})
        else:
            lifecycle.record(job.workspace, job.by, "workspace.unarchived", data)
    job.workspace.state, job.workspace.missing_snapshot = State.STOPPED, ""
