"""Allow a workspace to reach a host, once a person has approved it."""

from workspaces.runner.job import Kind
from workspaces.services import network


class AllowHost(Kind):
    async def perform(self, job):
        workspace = await job.refresh()
        await job.mark_started()
        # The allowance takes the operation's id, so a second attempt after a crash does not create a second row.
        made = await job.thread(network.allow, workspace, job.args, by=job.by, pk=job.operation.pk)
        return {"ok": True, "reason": f"{made.rule} may be reached now.", "allowance": str(made.pk)}
