"""Work with a value that was given with the operation: it is in the runner's memory, and nowhere else."""

import time

from dashboard.models import Team
from workspaces import operations
from workspaces.models import ReasonCode
from workspaces.runner.job import PROGRESS_INTERVAL_S, Kind
from workspaces.runner.refusals import Refused
from workspaces.services.scrub.value import Wanted

VALUE_IS_GONE = "Handrail was restarted meanwhile, and the value is stored nowhere. Start again."


class WithValue(Kind):
    """Work with a value that was given with the operation; after a crash it ends, since the value is gone."""

    async def perform(self, job):
        value = job.daemon.values.pop(job.operation.pk, None)
        if value is None:
            raise Refused(VALUE_IS_GONE, ReasonCode.LOST)
        await job.mark_started()
        team = await job.thread(Team.objects.get, pk=job.operation.team_id)
        return await self.work(job, team, Wanted(value))

    async def work(self, job, team, wanted: Wanted) -> dict:
        raise NotImplementedError


def tick_of(job):
    """Return a function that saves what is searched now and then, and raises Refused once the job is cancelled."""
    last = time.monotonic()

    def tick(step: str, found: int):
        nonlocal last
        if job.cancel.is_set():
            raise Refused("Stopped. What was removed before stays removed.", ReasonCode.CANCELLED)
        if time.monotonic() - last > PROGRESS_INTERVAL_S:
            last = time.monotonic()
            operations.record_progress(job.operation, {"step": step, "found": found})

    return tick
