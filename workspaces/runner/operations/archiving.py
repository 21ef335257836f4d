"""Archive a workspace: its files leave the host, and come back from its newest snapshot when it is resumed.

The state changes between the two halves: nothing is removed before the snapshot was verified and the workspace is
`archived`, and it stays `archived` until all files are back and were compared. So a crash loses nothing.
"""

import os
from pathlib import Path

from dashboard.models import Team
from dashboard.workers.failpoints import failpoint
from workspaces import lifecycle
from workspaces.drivers.base import DriverError
from workspaces.host import paths
from workspaces.models import EndCode, ReasonCode, State, Workspace
from workspaces.runner import removing, snapshots, waiting
from workspaces.runner.job import Job, Kind
from workspaces.runner.operations import kept_changes
from workspaces.runner.operations.comparing import prove
from workspaces.runner.operations.shutdown import at_rest, bring_down, discard_memory
from workspaces.runner.refusals import Refused
from workspaces.runner.run_spec import spec_of
from workspaces.services import archives
from workspaces.store import StoreError

STAYS = "programs"  # what programs printed has a retention rule of its own
MAX_NAMED = 5  # paths in a message


class PutAway(Kind):
    """Stop the workspace, verify its newest snapshot, mark it archived, and remove its files from the host."""

    async def perform(self, job):
        workspace = await job.refresh()
        if workspace.state not in (State.READY, State.PAUSED, State.STOPPED, State.ARCHIVED):
            raise job.wrong_state()
        await job.mark_started()
        if workspace.state != State.ARCHIVED:
            async with waiting.for_backend(job):
                await _end(job)
            try:
                await _verify(job)
            except (StoreError, DriverError) as error:
                raise Refused(f"Nothing was archived: {error}", ReasonCode.STORE) from error
            failpoint("archive.verified")
            kept = await job.thread(kept_changes.keep, job) if workspace.environment.ephemeral else {}
            failpoint("archive.changes_kept")
            await job.thread(_mark_archived, job, kept)
        failpoint("archive.marked")
        async with job.lock():
            left = await job.thread(_remove_files, workspace)
        return {"ok": True, "snapshot": workspace.head.number, "left": left}

    def finish(self, job, outcome):
        if outcome["ok"]:
            Workspace.objects.filter(pk=job.workspace.pk, state=State.ARCHIVED).update(reason=outcome["left"])
            return
        Workspace.objects.filter(pk=job.workspace.pk, state=State.STOPPED).update(reason=outcome["reason"])
        data = {"reason": outcome["reason"][:1000]}
        lifecycle.record(job.workspace, job.by, "workspace.archive_failed", data)


async def _end(job: Job):
    """End its programs and what is kept of their memory; it is stopped afterwards, with the reason if that went bad."""
    workspace = job.workspace
    missing_snapshot = workspace.missing_snapshot
    if workspace.state == State.READY:
        missing_snapshot = await bring_down(job, EndCode.ARCHIVED)
    else:
        await discard_memory(job, "the workspace was archived meanwhile.")
    await job.thread(mark_stopped, job, missing_snapshot)
    failpoint("archive.stopped")


def mark_stopped(job: Job, missing_snapshot: str):
    """Save that it is stopped, if it was not, so that a refusal or a crash leaves it at rest."""
    rows = Workspace.objects.filter(pk=job.workspace.pk).exclude(state=State.STOPPED)
    at = {"reason": missing_snapshot, "missing_snapshot": missing_snapshot, "vitals": at_rest(job.workspace)}
    with Team.objects.turn(job.workspace.team_id):
        if rows.update(state=State.STOPPED, **at):
            lifecycle.record(job.workspace, job.by, "workspace.stopped", {"missing_snapshot": missing_snapshot})
    job.workspace.state, job.workspace.missing_snapshot = State.STOPPED, missing_snapshot


async def _verify(job: Job):
    """Take a snapshot if the newest one is not what the files are, then compare and read every byte of it.

    Raise StoreError, or Refused for files that no snapshot can hold.
    """
    workspace = job.workspace
    async with job.lock(), job.open_tree() as tree:
        await job.recover_tree()
        proof = await job.thread(prove, workspace, tree, full=True, lend=False)
        if workspace.head is None or proof["differ"] or workspace.missing_snapshot:
            await job.snapshot("end", "before it was archived", thorough=True)
            proof = await job.thread(prove, workspace, tree, full=True, lend=False)
        if proof["differ"]:
            raise StoreError(f"{proof['differ']:,} entries differ from the snapshot that was just taken")
        await job.progress(step="verify")
        store = await job.thread(snapshots.store_of, workspace)
        how = {"progress": job.watch(step="verify")["progress"]}
        lacking = await job.thread(store.read_back, workspace.head.tree_hex, **how)
    if lacking:
        named = ", ".join(os.fsdecode(path) for path in lacking[:MAX_NAMED])
        more = f" and {len(lacking) - MAX_NAMED:,} more" if len(lacking) > MAX_NAMED else ""
        raise Refused(f"Nothing was archived: a snapshot can't hold {named}{more}, so these would be lost.")


def _mark_archived(job: Job, kept: dict):
    """Save that it is archived; `kept` says what was kept of the changes of an ephemeral workspace."""
    workspace = job.workspace
    vitals = {name: value for name, value in at_rest(workspace).items() if name != "bytes"}
    with Team.objects.turn(workspace.team_id):
        Workspace.objects.filter(pk=workspace.pk).update(state=State.ARCHIVED, reason="", vitals=vitals, alarm={})
        data = {"snapshot": workspace.head.number, "entries": workspace.head.entries} | kept
        lifecycle.record(workspace, job.by, "workspace.archived", data)
    workspace.state = State.ARCHIVED


def _remove_files(workspace) -> str:
    """Remove its files, its home and its memory from the host; return what could not be removed, as a message."""
    left = []
    folder = paths.folder_of(workspace.pk)
    kept = [entry for entry in folder.iterdir() if entry.name != STAYS] if folder.is_dir() else []
    for entry in [*kept, Path(archives.folder_of(workspace.pk))]:
        try:
            removing.remove(entry)
        except OSError as error:
            left.append(f"{entry.name}: {error.strerror}")
        failpoint("archive.removing")
    return f"Its files could not all be removed from the host ({'; '.join(left)}). Archive it again." if left else ""


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
        proof = await job.thread(prove, workspace, tree, full=True, lend=False)
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
