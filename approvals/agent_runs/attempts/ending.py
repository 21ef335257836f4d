"""Decide between attempts, and end a task. What is thrown away goes to the trash, and can be brought back."""

from contextlib import suppress

from django.db import transaction

from approvals import agent_runs
from approvals.agent_runs.attempts.making import record, require
from approvals.models import Task, TaskAttempt, TaskEnd, TaskThread
from dashboard.database import clock
from dashboard.models import Actor, Team
from dashboard.people.access import Caller
from dashboard.problems import Problem, conflict, invalid
from workspaces import lifecycle
from workspaces.models import Operation


def attempt_of(task: Task, wanted: int | str) -> TaskAttempt:
    """Return the attempt with this number, or in the workspace with this key. Problem 422."""
    rows = list(task.attempts.select_related("workspace__team", "workspace__environment", "run"))
    named = [each for each in rows if each.workspace.key == wanted or str(each.number) == str(wanted)]
    if not named:
        raise invalid("Name an attempt by its number, or by the key of its workspace.", field="attempt")
    return named[0]


def choose(task: Task, wanted: int | str, *, caller: Caller):
    """Keep one attempt and throw the others away; one that was thrown away is brought back first. Problem 403, 409."""
    require(caller, task.team_id)
    with Team.objects.turn(task.team_id):
        _must_be_open(task)
        kept = attempt_of(task, wanted)
        _bring_back(kept, caller)
        task.attempts.update(chosen=False)
        task.attempts.filter(pk=kept.pk).update(chosen=True)
        _throw(_others(task, kept), caller)
        _changed(task, caller.actor, "task.chosen", workspace=kept.workspace.key, attempt=kept.number)


def throw_away(task: Task, wanted: int | str, *, caller: Caller):
    """Move one attempt to the trash. Problem 403, 409 for the one that was chosen."""
    require(caller, task.team_id)
    with Team.objects.turn(task.team_id):
        _must_be_open(task)
        attempt = attempt_of(task, wanted)
        if attempt.chosen:
            raise conflict("This attempt was chosen. Choose another one instead, or cancel the task.")
        _throw([attempt], caller)
        _changed(task, caller.actor, "task.thrown_away", workspace=attempt.workspace.key, attempt=attempt.number)


def bring_back(task: Task, wanted: int | str | None = None, *, caller: Caller):
    """Bring one attempt back from the trash; without one all of them, with the task open and nothing chosen again.

    Problem 403, 409 if a workspace is on its way to the trash, or deleted for good.
    """
    require(caller, task.team_id)
    with Team.objects.turn(task.team_id):
        if wanted is not None:
            _must_be_open(task)
        attempts = [attempt_of(task, wanted)] if wanted is not None else _others(task)
        for attempt in attempts:
            _bring_back(attempt, caller)
        if wanted is None:
            task.attempts.update(chosen=False)
            task.end = ""
            TaskThread.objects.filter(task=task).update(read_at=clock.now(), archived_at=None)
        _changed(task, caller.actor, "task.brought_back", attempts=[each.number for each in attempts])


def cancel(task: Task, *, caller: Caller):
    """Stop the agents of a task and move its attempts to the trash. Problem 403, 409 once it is over."""
    require(caller, task.team_id)
    with Team.objects.turn(task.team_id):
        _must_be_open(task)
        _throw(_others(task), caller)
        task.end = TaskEnd.CANCELLED
        _changed(task, caller.actor, "task.cancelled")


def merged(task: Task, *, caller: Caller):
    """Record that the chosen attempt was merged, which ends the task and archives its workspace. Problem 403, 409."""
    require(caller, task.team_id)
    with Team.objects.turn(task.team_id):
        _must_be_open(task)
        end(task, TaskEnd.MERGED, by=caller.actor)


def end(task: Task, how: TaskEnd, *, by: Actor):
    """End a task in the team's turn: its pull request was merged, or closed. Problem 409 unless one was chosen."""
    kept = task.attempts.select_related("workspace__environment", "run__workspace").filter(chosen=True).first()
    if kept is None:
        raise conflict("Choose an attempt first.")
    task.end = how
    _changed(task, by, f"task.{how}", workspace=kept.workspace.key)
    with suppress(Problem), transaction.atomic():  # busy, or archived already: it stays as it is
        lifecycle.archive(kept.workspace, by=by)


def _must_be_open(task: Task):
    task.refresh_from_db(fields=["end"])
    if task.end:
        raise conflict(f"This task is {task.get_end_display()}. Bring its attempts back to open it again.")


def _others(task: Task, kept: TaskAttempt | None = None) -> list[TaskAttempt]:
    rows = task.attempts.select_related("workspace__team", "workspace__environment", "run__workspace")
    return list(rows.exclude(pk=kept.pk) if kept else rows)


def _changed(task: Task, by: Actor, verb: str, **data):
    task.changed_at = clock.now()
    task.save(update_fields=["end", "changed_at"])
    record(task, by, verb, **data)


def _throw(attempts: list[TaskAttempt], caller: Caller):
    for attempt in attempts:
        if attempt.thrown_at is None:
            attempt.thrown_at = clock.now()
            attempt.save(update_fields=["thrown_at"])
        if attempt.run and attempt.run.is_open:
            agent_runs.stop(attempt.run, caller=caller)
        if attempt.workspace.trashed_at is None:
            lifecycle.trash(attempt.workspace, by=caller.actor)


def _bring_back(attempt: TaskAttempt, caller: Caller):
    if attempt.thrown_at is None:
        return
    workspace = attempt.workspace
    if workspace.purged_at:
        raise conflict(f"{workspace.key} was deleted for good.")
    if workspace.trashed_at:
        lifecycle.untrash(workspace, by=caller.actor)
    elif Operation.objects.open().filter(kind="trash", workspace=workspace).exists():
        raise conflict(f"{workspace.key} is on its way to the trash. Try again in a moment.")
    attempt.thrown_at = None
    attempt.save(update_fields=["thrown_at"])
