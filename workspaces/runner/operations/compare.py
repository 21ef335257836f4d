"""Compare every byte of a workspace with its newest snapshot, on request."""

from workspaces import lifecycle
from workspaces.models import State
from workspaces.runner.job import Kind
from workspaces.runner.steps.compare import compare_or_alarm, save_proof, take_missing_snapshot


class Compare(Kind):
    """Compare every byte of a paused or stopped workspace with its newest snapshot."""

    stored = "prove"

    async def perform(self, job):
        await job.require(State.PAUSED, State.STOPPED)
        await job.mark_started()
        async with job.lock(), job.open_tree():
            await job.recover_tree()
            await take_missing_snapshot(job)
            proof, alarm = await compare_or_alarm(job, full=True)
        return {"ok": True, "proof": proof, "alarm": alarm}

    def finish(self, job, outcome):
        if outcome["ok"]:
            save_proof(job.workspace, outcome["proof"], outcome["alarm"])
            verb = "workspace.proof_failed" if outcome["proof"]["differ"] else "workspace.proven"
            lifecycle.record(job.workspace, job.by, verb, outcome["proof"])
