"""Start a connected folder's Run again, in a box in which calls are held, or without one."""

from workspaces import lifecycle
from workspaces.drivers.base import DriverError
from workspaces.models import EndCode, State, Workspace
from workspaces.runner.job import Kind
from workspaces.runner.operations.create import bring_up
from workspaces.runner.steps.shutdown import end_run


class BoxFolder(Kind):
    """End the Run with its programs and start it as asked. Where no box can be had, it starts without one."""

    stored = "hold"

    async def perform(self, job):
        await job.refresh()
        await job.require(State.READY)
        await job.mark_started()
        wanted, why_not = bool(job.args["on"]), ""
        await end_run(job, EndCode.STOPPED)
        await self._begin(job, wanted)
        try:
            await bring_up(job)
        except DriverError as error:
            if not wanted:
                raise
            why_not = str(error)
            await self._begin(job, False, why_not)
            await bring_up(job)
        words = f"Calls cannot be held here: {why_not}" if why_not else ""
        return {"ok": True, "held": wanted and not why_not, "reason": words}

    async def _begin(self, job, held: bool, why_not: str = ""):
        await job.thread(Workspace.objects.filter(pk=job.workspace.pk).update, held=held, not_held=why_not)
        await job.refresh()

    def finish(self, job, outcome):
        if outcome["ok"]:
            verb = "workspace.held" if outcome["held"] else "workspace.not_held"
            lifecycle.record(job.workspace, job.by, verb, {"reason": outcome["reason"][:1000]})
