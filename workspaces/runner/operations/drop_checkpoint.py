"""Remove the files of a deleted checkpoint."""

from workspaces.host import paths
from workspaces.runner import removing
from workspaces.runner.job import Kind


class DropCheckpoint(Kind):
    """Remove the files of a deleted checkpoint; args: {checkpoint}."""

    async def perform(self, job):
        await job.refresh()
        await job.mark_started()
        await job.thread(removing.remove, paths.checkpoint_of(job.workspace.pk, job.args["checkpoint"]))
        return {"ok": True}
