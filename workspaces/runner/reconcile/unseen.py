"""A program that was asked for while nobody had seen yet that its workspace's Run had died.

The workspace is still said to be ready then, for as long as a round of `liveness.watch` takes. The program has
certainly not begun, so the workspace is resumed, as it is for a program that is asked for while the end is being
recorded (`lifecycle.resume_for_use`), and the operation is due again after that.
"""

from django.db import transaction

from dashboard.models import Team
from workspaces import lifecycle, operations
from workspaces.models import Operation, Phase, State
from workspaces.operations import endings
from workspaces.runner import snapshots
from workspaces.runner.reconcile import liveness
from workspaces.runner.refusals import Again

RESUMED = "resumed_for_it"  # in the progress of the operation: done once


async def resume_first(job):
    """Raise Again, with a resume under way, if the Run died since the operation was asked for, or a little before.

    Return the driver's record of the Run if it is alive and the workspace ready, None where it was not looked at.
    Call it before the operation begins; of one that may have begun before a crash of the runner nothing is repeated.
    Problem when the workspace cannot be resumed, DriverError.
    """
    (workspace, run), operation = await job.refresh_with_run(), job.operation
    if (
        workspace.environment.capabilities.own_folder
        or operation.phase == Phase.STARTED
        or operation.progress.get(RESUMED)
    ):
        return None
    if workspace.state == State.READY:
        owner = await job.daemon.owner_of(job.driver, run.pk) if run else None
        if owner is not None and await job.driver.alive(owner):
            return owner
    elif workspace.state != State.STOPPED:
        return None
    if await job.thread(_is_ended_on_request, job):
        return None
    if workspace.state == State.READY or await job.thread(_ended_by_itself, job):
        await job.thread(_resume, job)
        raise Again
    return None


def _is_ended_on_request(job) -> bool:
    return Operation.objects.in_flight().filter(workspace=job.workspace, kind__in=[*lifecycle.ENDS_ON_REQUEST]).exists()


def _ended_by_itself(job) -> bool:
    last = job.workspace.runs.exclude(ended_at=None).order_by("-ended_at").first()
    return last is not None and last.end_code in endings.BY_ITSELF and last.ended_at >= job.operation.created_at


@transaction.atomic
def _resume(job):
    Team.objects.take_turn(job.workspace.team_id)
    run = snapshots.open_run(job.workspace)
    if job.workspace.state == State.READY and run is not None:
        liveness.request_close(job.workspace, str(run.pk))  # which notes why it ended; a resume alone would not
    resume = lifecycle.submit_exclusive(job.workspace, "resume", by=job.by)
    operations.record_progress(job.operation, job.operation.progress | {RESUMED: True})
    operations.put_behind(job.operation, resume)
