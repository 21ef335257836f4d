"""Operations that wait until the service on which their driver depends answers again, such as a container engine."""

from contextlib import asynccontextmanager

from workspaces import operations
from workspaces.drivers.base import BackendLost
from workspaces.models import ReasonCode
from workspaces.runner.refusals import Again, Refused

WAITS = operations.WAITS  # in the progress of an operation: why it waits


@asynccontextmanager
async def for_backend(job):
    """Put the operation off, whatever it has done so far, while the driver's backend does not answer.

    Only for work that can be repeated from its beginning. It is begun, and nothing ended, only if the backend answers.
    """
    waited = WAITS in job.operation.progress
    if waited and job.operation.cancelled_at:
        raise Refused("Cancelled before it was done.", ReasonCode.CANCELLED)
    try:
        await job.driver.held_up()
        if waited:
            known = {name: value for name, value in job.operation.progress.items() if name != WAITS}
            await job.thread(operations.record_progress, job.operation, known)
        yield
    except BackendLost as error:
        job.daemon.probes.due.set()
        await job.thread(_put_off, job, str(error))
        raise Again from error


def _put_off(job, why: str):
    operations.put_off(job.operation, why)
    # A later runner finds that it may be claimed again.
    job.daemon.ledger.write(job.operation.pk, job.operation.epoch, "claimed")
