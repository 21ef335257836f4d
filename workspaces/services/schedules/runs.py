"""The runs of schedules: claim what is due, start it, follow it to its end, ask when a budget is met.

`step` compares rows and may be called at any time, twice, or late. What it does is one transaction for each run, so
that a process that is killed leaves either nothing or a step that the next call continues.
"""

import hashlib
from datetime import datetime, timedelta

from django.db import IntegrityError, transaction
from django.db.models import Exists, OuterRef, Q, QuerySet

from dashboard.database import clock
from dashboard.models import Actor, Event, Team
from dashboard.people.access import Caller
from dashboard.problems import conflict, invalid
from workspaces import extensions, operations
from workspaces.models import (
    FAILING_STATES,
    OPEN_STATES,
    CatchUp,
    Command,
    JobKind,
    Phase,
    Schedule,
    ScheduledRun,
    ScheduledState,
)
from workspaces.programs import recordings
from workspaces.programs.checks import has_unknown_end
from workspaces.services import commands
from workspaces.services.schedules import cron, jobs
from workspaces.services.schedules.changes import MAX_MINUTES

BY = Actor.system("schedules")
LATE = timedelta(minutes=10)  # a time that is longer ago was missed
MISSED = "Handrail did not run at that time."
WITH_ALL = ("schedule__team", "schedule__owner", "schedule__workspace__environment", "asked_by")
WITH_ALL += ("workspace__environment", "workspace__team", "command__operation", "command__workspace", "preparing")


def due(now: datetime) -> tuple[QuerySet, QuerySet]:
    """Return what `step` has to do: schedules whose time has come, and open runs that can be brought further."""
    over = Q(command=None) | Q(command__operation__phase__in=[Phase.SETTLED, Phase.UNCERTAIN])
    begun = Q(started_at=None, command__started_at__isnull=False)
    asks = Q(budget_until__lte=now, budget_asked_at=None)
    return Schedule.objects.due(now), open_runs().filter(over | begun | asks)


def open_runs():
    return ScheduledRun.objects.filter(state__in=OPEN_STATES)


def step() -> int:
    """Follow the open runs, then claim and start what is due; return the number of runs looked at."""
    followed = list(open_runs().values_list("pk", flat=True))
    for pk in followed:
        _follow(pk)
    claimed = [made for pk in Schedule.objects.due(clock.now()).values_list("pk", flat=True) if (made := _claim(pk))]
    for pk in claimed:
        _follow(pk)
    return len(followed) + len(claimed)


@transaction.atomic
def _claim(pk):
    """Make a run for the last due time of a schedule, once; return its id if it has to be started."""
    now = clock.now()
    Team.objects.take_turn(*Schedule.objects.filter(pk=pk).values_list("team_id", flat=True))
    schedule = Schedule.objects.due(now).filter(pk=pk).first()
    if schedule is None:
        return None
    run = _make(schedule, cron.latest(schedule.cron, schedule.zone, now), now)
    Schedule.objects.filter(pk=pk).update(next_due_at=cron.following(schedule.cron, schedule.zone, now))
    return run.pk if run and run.is_open else None


def _make(schedule: Schedule, due_at: datetime, now: datetime) -> ScheduledRun | None:
    """Add the run of a due time, or that it was skipped; None if this due time has one, or another run is open."""
    run = ScheduledRun(schedule=schedule, due_at=due_at)
    if why := _why_skipped(schedule, due_at, now):
        run.state, run.reason, run.ended_at = ScheduledState.SKIPPED, why, now
    try:
        with transaction.atomic():
            run.save(force_insert=True)
    except IntegrityError:
        return None
    if why:
        _record(run, BY, "schedule.skipped", {"reason": why})
        _forget(schedule)
    return run


def _why_skipped(schedule: Schedule, due_at: datetime, now: datetime) -> str:
    if schedule.runs.filter(state__in=OPEN_STATES).exists():
        return "The run before it had not ended."
    return MISSED if _is_missed(schedule, due_at, now) else ""


def _is_missed(schedule: Schedule, due_at: datetime, now: datetime) -> bool:
    return now - due_at > LATE and schedule.catch_up == CatchUp.SKIP


@transaction.atomic
def run_now(schedule: Schedule, *, caller: Caller) -> ScheduledRun:
    """Make a run outside the schedule's times, with the caller's permissions. Problem 409 if one is open."""
    try:
        with transaction.atomic():
            run = ScheduledRun.objects.create(schedule=schedule, due_at=clock.now(), asked_by=caller.user, by_hand=True)
    except IntegrityError:
        raise conflict("A run of it hasn't ended.", code="running") from None
    _follow(run.pk)
    run.refresh_from_db()
    return run


@transaction.atomic
def _follow(pk):
    """Bring one open run a step further."""
    Team.objects.take_turn(*ScheduledRun.objects.filter(pk=pk).values_list("schedule__team_id", flat=True))
    run = ScheduledRun.objects.select_related(*WITH_ALL).filter(pk=pk).first()
    if run is None or not run.is_open:
        return
    if run.state == ScheduledState.WAITING:
        _start(run)
    elif run.schedule.kind == JobKind.AGENT:
        _follow_agent(run)
    elif run.command is None:
        _end(run, ScheduledState.UNCLEAR, "Its command was deleted.")
    elif operations.is_over(run.command.operation):
        _end_with_command(run)
    else:
        _follow_command(run)


def _start(run: ScheduledRun):
    if run.workspace is None and not run.by_hand and _is_missed(run.schedule, run.due_at, clock.now()):
        _end(run, ScheduledState.SKIPPED, MISSED)  # a process was killed after it had claimed the time
        return
    if why := jobs.attempt(run):
        _end(run, ScheduledState.NOT_STARTED, why)
        return
    if run.schedule.kind == JobKind.AGENT:
        run.started_at = clock.now()
    run.save(update_fields=["workspace", "preparing", "command", "state", "started_at"])
    if run.command:
        by = Actor(**run.command.by)
        _record(run, by, "schedule.started", {"command": str(run.command.pk)})
    elif run.state == ScheduledState.RUNNING:
        _record(run, BY, "schedule.started", {})


def _follow_agent(run: ScheduledRun):
    """End the run once its agent has ended. Requests for more budget are answered on the agent run's page."""
    if ended := extensions.ports.agent_jobs.end_of(run):
        _end(run, *ended)


def _follow_command(run: ScheduledRun):
    """Note when the command began, and ask once its budget is met."""
    minutes, began = run.schedule.budget_minutes, run.command.started_at
    if began is None:
        return
    if run.started_at is None:
        run.started_at = began
        run.budget_until = began + timedelta(minutes=minutes) if minutes else None
        run.save(update_fields=["started_at", "budget_until"])
    if run.budget_until and run.budget_asked_at is None and run.budget_until <= clock.now():
        run.budget_asked_at, run.untold = clock.now(), "budget"
        run.save(update_fields=["budget_asked_at", "untold"])
        _record(run, BY, "schedule.budget_met", {"minutes": minutes})


def _end_with_command(run: ScheduledRun):
    command, outcome = run.command, run.command.operation.outcome or {}
    run.started_at, run.exit_status = command.started_at, command.exit_status
    run.output_bytes, run.output_sha256 = command.output_bytes, _digest(command)
    reason = "" if outcome.get("ok") else outcome.get("reason", "")
    _end(run, _state_after(command), reason, at=command.ended_at or command.operation.settled_at)


def _state_after(command: Command) -> str:
    if has_unknown_end(command.operation):
        return ScheduledState.UNCLEAR
    if command.exit_status == 0:
        return ScheduledState.PASSED
    if command.cancelled_at:
        return ScheduledState.STOPPED
    if command.started_at is None:
        return ScheduledState.NOT_STARTED
    return ScheduledState.FAILED


def _digest(command: Command) -> str:
    """Return the SHA-256 of the output as it was kept; "" if it is not on this host."""
    digest, found = hashlib.sha256(), False
    for piece in recordings.of(command).pieces():
        digest.update(piece)
        found = True
    return digest.hexdigest() if found or not command.output_bytes else ""


def _end(run: ScheduledRun, state: str, reason: str, at: datetime | None = None):
    """Close the run, and have its owner told of the first failure in a row."""
    failing = state in FAILING_STATES
    before = run.schedule.runs.exclude(pk=run.pk).exclude(state__in=(*OPEN_STATES, ScheduledState.SKIPPED)).first()
    run.state, run.reason, run.ended_at, run.budget_asked_at = state, reason, at or clock.now(), None
    run.untold = "failed" if failing and not (before and before.state in FAILING_STATES) else ""
    run.save()
    _record(run, BY, "schedule.failed" if failing else "schedule.ended", {"state": state, "reason": reason[:500]})
    _forget(run.schedule)


def _forget(schedule: Schedule):
    """Delete the runs beyond those that the schedule keeps."""
    beyond = schedule.runs.order_by("-due_at").values_list("pk", flat=True)[schedule.keep :]
    ScheduledRun.objects.filter(pk__in=list(beyond)).exclude(state__in=OPEN_STATES).delete()


def _record(run: ScheduledRun, by: Actor, verb: str, more: dict):
    told = {"name": run.schedule.name, "due": run.due_at.isoformat(timespec="seconds"), "run": str(run.pk)}
    told |= {"exit_status": run.exit_status} if run.exit_status is not None else {}
    told |= {name: value for name, value in more.items() if value}
    Event.objects.record(
        run.schedule.team_id, actor=by, verb=verb, subject=run.schedule, workspace=run.workspace_id, data=told
    )


# Answers of people ---------------------------------------------------------------------------------------------------


def let_run(run: ScheduledRun, minutes: int, *, caller: Caller):
    """Answer a met budget: do not ask again for so many minutes. Problem 409 if nobody is asked (any more)."""
    if not 1 <= minutes <= MAX_MINUTES:
        raise invalid(f"Give 1 to {MAX_MINUTES:,} minutes.", field="minutes")
    until = clock.now() + timedelta(minutes=minutes)
    with Team.objects.turn(run.schedule.team_id):
        asked = open_runs().filter(pk=run.pk).exclude(budget_asked_at=None)
        if not asked.update(budget_asked_at=None, budget_until=until, untold=""):
            raise conflict("Nobody is asked about this run any more.")
        _record(run, caller.actor, "schedule.budget_extended", {"minutes": minutes})
    run.refresh_from_db()


def stop(run: ScheduledRun, *, caller: Caller):
    """End an open run: its command is asked to end, or it does not start. Problem 409 if it has ended."""
    with Team.objects.turn(run.schedule.team_id):
        found = ScheduledRun.objects.select_related(*WITH_ALL).get(pk=run.pk)
        if not found.is_open:
            raise conflict("This run has ended.")
        if found.schedule.kind == JobKind.AGENT and found.state == ScheduledState.RUNNING:
            extensions.ports.agent_jobs.stop(found, caller)
        elif found.command:
            commands.cancel_command(found.command, by=caller.actor)
            ScheduledRun.objects.filter(pk=run.pk).update(budget_asked_at=None, untold="", budget_until=None)
        else:
            _end(found, ScheduledState.STOPPED, "A person stopped it before it started.")
    run.refresh_from_db()


def pressing(caller: Caller) -> dict:
    """Return what a person should see to: runs that ask about their budget, and schedules whose last run failed."""
    rows = ScheduledRun.objects.select_related("schedule__team", "workspace__team", "command")
    rows = rows.filter(schedule__in=Schedule.objects.visible_to(caller))
    asking = rows.filter(state__in=OPEN_STATES).exclude(budget_asked_at=None).order_by("budget_asked_at")
    return {"schedules_asking": list(asking[:10]), "schedules_failing": failing(rows)}


def failing(rows, most: int = 10) -> list[ScheduledRun]:
    """Return the last run that counts of each schedule that is not paused, if it failed."""
    later = ScheduledRun.objects.filter(schedule=OuterRef("schedule"), due_at__gt=OuterRef("due_at"))
    later = later.exclude(state__in=(*OPEN_STATES, ScheduledState.SKIPPED))
    found = rows.filter(~Exists(later), state__in=FAILING_STATES, schedule__paused_at=None)
    return list(found.order_by("-due_at")[:most])
