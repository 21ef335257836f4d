"""Maintenance of a team's store: check it, free space, repair it.

Each is an operation without a workspace, which the runner carries out (store_check.py, store_collect.py and
store_repair.py in runner/operations). Of each kind the newest operation of a team is kept,
and the newest that was not cancelled.
"""

from dataclasses import dataclass
from datetime import datetime

from django.db import transaction

from dashboard.models import Actor, Event, Team
from dashboard.problems import conflict
from workspaces import operations
from workspaces.changes import stores
from workspaces.models import Operation, ReasonCode, StoreTask, Workspace

INCONCLUSIVE = (ReasonCode.CANCELLED, ReasonCode.RESTORED)


@dataclass(frozen=True)
class Round:
    """A task on a team's store: its newest operation, and the newest that is over and was not cancelled."""

    task: StoreTask
    operation: Operation
    concluded: Operation | None

    @property
    def is_over(self) -> bool:
        return operations.is_over(self.operation)

    @property
    def is_full(self) -> bool:
        return bool(self.operation.args.get("full"))

    @property
    def is_ok(self) -> bool | None:
        """Return whether the last operation that was not cancelled was successful; None before the first is over."""
        return self.concluded.outcome["ok"] if self.concluded else None

    @property
    def outcome(self) -> dict:
        """Return the last outcome. After a cancellation, the findings before it still stand."""
        found = self.concluded.outcome if self.concluded else {}
        return found | self.operation.outcome if self.is_over else found

    @property
    def ended_at(self) -> datetime | None:
        return self.operation.settled_at


def rounds(team) -> dict[StoreTask, Round]:
    """Return the newest round of each task that was ever requested for the team's store."""
    found: dict[StoreTask, Round] = {}
    for operation in _operations(team, *StoreTask).order_by("created_at"):
        task = StoreTask(operation.args["task"])
        concluded = found[task].concluded if task in found else None
        found[task] = Round(task, operation, operation if is_conclusive(operation) else concluded)
    return found


def is_conclusive(operation: Operation) -> bool:
    """Return True if the operation is over and tells the state of the store."""
    return operations.is_over(operation) and operation.outcome.get("reason_code") not in INCONCLUSIVE


def _operations(team, *tasks: StoreTask):
    return Operation.objects.filter(team=team, kind__in=[task.kind for task in tasks])


def request(team, task: str, *, by: Actor, full: bool = False) -> Round:
    """Request a task on the team's store. Problem 409 while it is in progress."""
    task = StoreTask(task)
    with transaction.atomic():
        if _submit(team, task, by=by, full=full) is None:
            raise conflict("Already in progress.")
        Event.objects.record(team, actor=by, verb=f"store.{task}_asked", subject=team, data={"full": full})
    return rounds(team)[task]


def _submit(team, task: StoreTask, *, by: Actor, full: bool) -> Operation | None:
    last = rounds(team).get(task)
    # After a failed full check the next one is full too: a quick one would not find the same damage.
    full = full or bool(last and last.is_ok is False and last.concluded.args.get("full"))
    return operations.submit_for_team(task.kind, team=team, args={"task": task.value, "full": full}, by=by)


def request_for_all(task: StoreTask, *, full: bool = False) -> list[Operation]:
    """Request a scheduled task for each team that has a store, unless it is in progress there."""
    by = Actor.system("queue")
    teams = [team for team in Team.objects.all() if stores.is_expected(team.pk)]
    return [found for team in teams if (found := _submit(team, task, by=by, full=full)) is not None]


def cancel(team, task: str, *, by: Actor) -> Round:
    """Request cancellation of a task. Problem 409 if it is not in progress or was cancelled already."""
    with Team.objects.turn(team.pk):
        found = _operations(team, StoreTask(task)).open().first() if task in StoreTask.values else None
        if found is None or not operations.request_cancel(found):
            raise conflict("It has ended or is already stopping.")
        Event.objects.record(team, actor=by, verb=f"store.{task}_stopped", subject=team)
    return rounds(team)[StoreTask(task)]


def finish(operation: Operation, outcome: dict):
    """Record damage that a check found, and delete the rounds before. In the transaction that settles the operation."""
    cancelled = outcome.get("reason_code") == ReasonCode.CANCELLED
    if operation.kind == StoreTask.CHECK.kind and not outcome["ok"] and not cancelled:
        problems = [f"{found['where']}: {found['what']}" for found in outcome.get("problems", [])]
        data = {"problems": problems or [outcome.get("reason", "")]}
        by = Actor.system("check")
        Event.objects.record(operation.team, actor=by, verb="store.damaged", subject=operation.team, data=data)
    earlier = Operation.objects.filter(team=operation.team_id, kind=operation.kind).exclude(pk=operation.pk)
    if cancelled:
        kept = next((row.pk for row in earlier.order_by("-created_at") if is_conclusive(row)), None)
        earlier = earlier.exclude(pk=kept)
    earlier.delete()


def damaged(team_ids) -> list[Round]:
    """Return the checks of these teams' stores that found damage, or that failed."""
    rows = Operation.objects.filter(team__in=team_ids, kind=StoreTask.CHECK.kind).order_by("created_at")
    newest = {
        row.team_id: Round(StoreTask.CHECK, row, row) for row in rows.select_related("team") if is_conclusive(row)
    }
    return [found for found in newest.values() if not found.is_ok]


# -- disk usage ----------------------------------------------------------------------------------------------------


def _measured(team) -> dict:
    """Return the outcome of the last collection, which measures what each workspace and snapshot alone uses."""
    last = rounds(team).get(StoreTask.COLLECT)
    return last.concluded.outcome if last and last.concluded else {}


def freed_by_workspace(team) -> list[tuple[Workspace, int, int]]:
    """Return (workspace, number of snapshots, bytes freed with it) as last measured by a collection, largest first."""
    sizes = _measured(team).get("workspaces", {})
    found = Workspace.objects.filter(pk__in=sizes).select_related("team")
    rows = [(one, one.snapshots.count(), sizes[str(one.pk)]) for one in found]
    return sorted(rows, key=lambda row: -row[2])


def freed_by_snapshot(snapshot) -> int | None:
    """Return the bytes that deleting this snapshot alone frees, as last measured; None if it was not."""
    return _measured(snapshot.workspace.team_id).get("snapshots", {}).get(str(snapshot.pk))
