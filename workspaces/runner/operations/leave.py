"""Remove what a workspace that moved to another host has left here."""

from dashboard.workers.failpoints import failpoint
from workspaces.host import paths
from workspaces.runner import removing
from workspaces.runner.job import Kind
from workspaces.runner.steps.volumes import remove_volumes


class Leave(Kind):
    """Remove the workspace's folder of this host, unless it is here again."""

    async def perform(self, job):
        workspace = await job.refresh()
        await job.mark_started()
        failpoint("leave.started")
        if workspace.runner_id == job.operation.runner_id:
            return {"ok": True, "already": True}
        await remove_volumes(job, everywhere=False)
        async with job.lock():
            await job.thread(removing.remove, paths.folder_of(workspace.pk))
        return {"ok": True}
