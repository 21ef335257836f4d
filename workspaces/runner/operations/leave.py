"""Remove what a workspace that moved to another host has left here."""

from dashboard.workers.failpoints import failpoint
from workspaces.host import paths
from workspaces.runner import removing
from workspaces.runner.job import Kind


class Leave(Kind):
    """Remove the workspace's folder of this host, unless it is here again."""

    async def perform(self, job):
        workspace = await job.refresh()
        await job.mark_started()
        failpoint("leave.started")
        if workspace.runner_id == job.operation.runner_id:
            return {"ok": True, "already": True}
        async with job.lock():
            await job.thread(removing.remove, paths.folder_of(workspace.pk))
        return {"ok": True}
