"""Move a workspace to another host, or under another driver: this is what is done where its files are.

Three operations follow each other, each due when the one before is settled, in the same commit:

  move    here   end it, keep all of its files in a snapshot, read every byte of that back
  arrive  there  restore the files beside what may be there, compare every byte, then switch the place in one commit
  leave   here   remove what the workspace has left

Until the switch the workspace is where it was, whole; from then on it is at its new place, whole.
"""

from contextlib import suppress

from dashboard.problems import Problem
from dashboard.workers.failpoints import failpoint
from workspaces import lifecycle, operations
from workspaces.drivers.base import DriverError
from workspaces.models import EndCode, Operation, ReasonCode, Runner, State, Workspace
from workspaces.runner import waiting
from workspaces.runner.job import Job, Kind
from workspaces.runner.refusals import Refused
from workspaces.runner.steps import belongings
from workspaces.runner.steps.keep_all import end, keep_all
from workspaces.store import StoreError


class Move(Kind):
    """args: {runner, environment}: the ids of the host and of the environment that it goes to."""

    when_store_fails = "Nothing was moved: "

    async def perform(self, job):
        workspace = await job.refresh()
        if workspace.state not in (State.READY, State.PAUSED, State.STOPPED):
            raise job.wrong_state()
        await job.mark_started()
        was = job.operation.progress.get("was") or workspace.state
        await job.progress(was=was)
        if workspace.state != State.STOPPED or was == State.STOPPED:
            async with waiting.for_backend(job):
                await end(job, EndCode.MOVED, "the workspace was moved meanwhile.")
        failpoint("move.stopped")
        try:
            await keep_all(job, "before it was moved", "moved")
        except (StoreError, DriverError) as error:
            raise Refused(f"Nothing was moved: {error}", ReasonCode.STORE) from error
        failpoint("move.kept")
        sent = {}
        if job.args["runner"] != str(workspace.runner_id):
            sent = await job.thread(belongings.send, workspace)
        failpoint("move.sent")
        head, epoch = str(workspace.head_id), workspace.lead_epoch
        return {"ok": True, "was": was, "snapshot": workspace.head.number, "head": head, "epoch": epoch, "sent": sent}

    def finish(self, job, outcome):
        was = job.operation.progress.get("was", "")
        if not outcome["ok"]:
            did_not_move(job, was, outcome["reason"])
            return
        there = Runner.objects.get(pk=job.args["runner"])
        known = {name: outcome[name] for name in ("was", "head", "epoch", "sent")}
        args = job.args | known | {"from": str(job.workspace.runner_id)}
        next_step(job, "arrive", there, args)


def next_step(job: Job, kind: str, runner: Runner, args=None):
    """Submit the next step of a move, before all that was asked of the workspace since the move was."""
    step = operations.submit(kind, workspace=job.workspace, by=job.by, args=args, exclusive=True, runner=runner)
    Operation.objects.filter(pk=step.pk).update(due_at=job.operation.due_at)


def did_not_move(job: Job, was: str, reason: str):
    """Leave the workspace where it is, as it was: what was up is resumed there."""
    rows = Workspace.objects.filter(pk=job.workspace.pk)
    rows.filter(state=State.STOPPED).update(state=State.PAUSED if was == State.PAUSED else State.STOPPED, reason=reason)
    lifecycle.record(job.workspace, job.by, "workspace.move_failed", {"reason": reason[:1000]})
    if was == State.READY:
        resume_at(job.workspace.pk, job.by)


def resume_at(workspace_id, by):
    """Submit its resume where it is now; while the team is stopped it stays stopped."""
    workspace = Workspace.objects.get(pk=workspace_id)
    with suppress(Problem):
        operations.submit("resume", workspace=workspace, by=by, exclusive=True)
