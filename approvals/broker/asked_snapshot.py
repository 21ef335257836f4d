"""The operation that takes the snapshot, and notes it on the action."""

from django.utils.text import Truncator

from approvals.actions.transitions import record
from approvals.models import Action
from dashboard.models import Actor, Team
from workspaces.models import Operation, Snapshot, State
from workspaces.runner.job import Kind
from workspaces.runner.operations.snapshot import snapshot_made_since, take_now

SNAPSHOT_KIND = "asked"
STATES = (State.READY, State.PAUSED, State.STOPPED, State.ARCHIVED)


class AskedSnapshot(Kind):
    """Take a snapshot unless nothing has changed since the newest one, which then is the one."""

    when_cancelled = "It was cancelled."
    when_store_fails = "The snapshot could not be kept: "

    async def perform(self, job):
        await job.require(*STATES)
        label = await job.thread(_label, job)
        await job.mark_started()
        taken = await take_now(job, SNAPSHOT_KIND, label, unless_same=True)
        return {"ok": True, "snapshot": taken.number}

    async def recover(self, job):
        """Return the snapshot committed before the crash, or take one now."""
        await job.refresh()
        label = await job.thread(_label, job)
        made = await job.thread(snapshot_made_since, job, SNAPSHOT_KIND, label)
        return {"ok": True, "snapshot": made.number} if made else await self.perform(job)

    def finish(self, job, outcome):
        note(job.operation, outcome, by=job.by)


def note(operation: Operation, outcome: dict, *, by: Actor):
    """Note the snapshot, or that there is none, on the actions of which this is the present operation."""
    taken = None
    if outcome["ok"]:
        taken = Snapshot.objects.filter(workspace=operation.workspace_id, number=outcome["snapshot"]).first()
    with Team.objects.turn(operation.of_team):
        mine = Action.objects.filter(asked_operation=operation)
        mine.update(asked_snapshot=taken)
        for action in mine.order_by("number"):
            if taken is None:
                why = str(outcome.get("reason") or "it was deleted")[:1000]
                record(action, "action.asked_snapshot_failed", by, {"reason": why})
            else:
                record(action, "action.asked_snapshot", by, {"snapshot": taken.number})


def label_of(action: Action) -> str:
    """Return the label of the snapshot that is taken when the action begins to wait."""
    return Truncator(f"when A-{action.number} was asked ({action.title}").chars(119) + ")"


def _label(job) -> str:
    return label_of(Action.objects.only("number", "title").get(pk=job.args["action"]))
