"""Archive a workspace: its files leave the host; steps/bring_back.py restores them when it is resumed.

Nothing is removed before the snapshot was verified and the workspace is `archived`. So a crash loses nothing.
"""

from pathlib import Path

from dashboard.models import Team
from dashboard.workers.failpoints import failpoint
from workspaces import lifecycle
from workspaces.drivers.base import DriverError
from workspaces.host import paths
from workspaces.models import EndCode, ReasonCode, State, Workspace
from workspaces.runner import removing, waiting
from workspaces.runner.job import Job, Kind
from workspaces.runner.refusals import Refused
from workspaces.runner.steps import kept_changes
from workspaces.runner.steps.keep_all import end, keep_all
from workspaces.runner.steps.shutdown import at_rest
from workspaces.runner.steps.volumes import remove_volumes
from workspaces.services import archives
from workspaces.store import StoreError

STAYS = "programs"  # what programs printed has a retention rule of its own


class Archive(Kind):
    """Stop the workspace, verify its newest snapshot, mark it archived, and remove its files from the host."""

    stored = "put_away"

    async def perform(self, job):
        workspace = await job.refresh()
        if workspace.state not in (State.READY, State.PAUSED, State.STOPPED, State.ARCHIVED):
            raise job.wrong_state()
        await job.mark_started()
        if workspace.state != State.ARCHIVED:
            async with waiting.for_backend(job):
                await end(job, EndCode.ARCHIVED, "the workspace was archived meanwhile.")
            failpoint("archive.stopped")
            try:
                await keep_all(job, "before it was archived", "archived")
            except (StoreError, DriverError) as error:
                raise Refused(f"Nothing was archived: {error}", ReasonCode.STORE) from error
            failpoint("archive.verified")
            kept = await job.thread(kept_changes.keep_changes, job) if workspace.environment.ephemeral else {}
            failpoint("archive.changes_kept")
            await job.thread(_mark_archived, job, kept)
        failpoint("archive.marked")
        await remove_volumes(job)
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


def _mark_archived(job: Job, kept: dict):
    """Save that it is archived; `kept` says what was kept of the changes of an ephemeral workspace."""
    workspace = job.workspace
    vitals = {name: value for name, value in at_rest(workspace).items() if name not in ("bytes", "shared")}
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
