"""Let a workspace reach a host: the end of an action that a person approved."""

from workspaces import network
from workspaces.runner.job import Kind


class AllowHost(Kind):
    async def perform(self, job):
        workspace = await job.refresh()
        await job.started()
        # The effect's id is the allowance's, so that a second round after a crash makes no second one.
        made = await job.thread(network.allow, workspace, job.args, by=job.by, pk=job.effect.pk)
        return {"ok": True, "reason": f"{made.rule} may be reached now.", "allowance": str(made.pk)}
