"""The kind of operation that restores the hook of a connected folder."""

from approvals.connect import folder_hooks, hook_watch
from workspaces.models import Workspace
from workspaces.runner.job import Kind


class PutHookBack(Kind):
    """Merge the hook into the settings file as it is now; idempotent."""

    async def perform(self, job):
        workspace = await job.refresh()
        await job.mark_started()
        await job.thread(self._put, workspace)
        return {"ok": True, "reason": "Hook restored. Restart sessions that started without it."}

    def _put(self, workspace):
        folder_hooks.put_in(workspace)

    def finish(self, job, outcome):
        hook_watch.check(Workspace.objects.get(pk=job.operation.workspace_id), by=job.by)
