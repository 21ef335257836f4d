"""Delete a trashed workspace for good."""

from dashboard.database import clock
from workspaces import lifecycle
from workspaces.host import paths
from workspaces.models import Workspace
from workspaces.programs import kept_recordings
from workspaces.runner import removing
from workspaces.runner.job import Kind
from workspaces.runner.refusals import Refused
from workspaces.runner.steps.volumes import remove_volumes
from workspaces.services import archives
from workspaces.services.retention import holds


class Purge(Kind):
    """Delete the folder and snapshots of a trashed workspace whose time is up. Its row stays as a tombstone."""

    async def perform(self, job):
        workspace = await job.refresh()
        if workspace.trashed_at is None or workspace.purge_at > await job.thread(clock.now):
            return {"ok": True, "already": True}
        if held := await job.thread(holds.on_whole_workspace, workspace):
            raise Refused(f"It is on hold: {held.reason}")
        await job.mark_started()
        await remove_volumes(job, must=True)
        async with job.lock():
            await job.thread(removing.remove, paths.folder_of(workspace.pk))
            await job.thread(kept_recordings.remove_all, workspace.pk)
            await job.thread(archives.forget_all, workspace.pk)
            await job.thread(removing.remove, paths.checkpoints_of(workspace.pk))
        return {"ok": True}

    def finish(self, job, outcome):
        if outcome.get("already") or not outcome["ok"]:
            return
        workspace = job.workspace
        Workspace.objects.filter(pk=workspace.pk).update(purged_at=clock.now(), head=None, baseline=None)
        workspace.checkpoints.all().delete()
        workspace.snapshots.all().delete()
        workspace.rehearsals.all().delete()
        workspace.hand_overs.all().delete()
        workspace.notes.all().delete()
        workspace.handed_secrets.all().delete()
        workspace.contacts.all().delete()
        workspace.allowances.all().delete()
        lifecycle.record(workspace, job.by, "workspace.purged", {"key": workspace.key})
