"""Schedules: jobs at the times of a cron text, their runs, and answers to runs that met their budget."""

from datetime import datetime
from decimal import Decimal
from typing import Literal

from ninja import Router, Schema, Status
from pydantic import Field

from dashboard.database import clock
from dashboard.problems import not_allowed
from dashboard.web import lookup
from dashboard.web.api_base import PROBLEMS
from dashboard.web.lookup import Order, page_of
from dashboard.web.pages import as_uuid
from workspaces.api import schemas
from workspaces.api.lookup import team_of
from workspaces.models import Schedule, ScheduledRun
from workspaces.services import schedules
from workspaces.services.schedules import cron

router = Router(tags=["schedules"])


class ScheduleChange(schemas.Strict):
    name: str = Field("", max_length=80)
    cron: str = Field("", max_length=120, description="minute, hour, day of the month, month, day of the week")
    zone: str = Field("UTC", max_length=64, description="the time zone of the cron text, such as Europe/Berlin")
    kind: Literal["command", "check", "agent"] = "command"
    command: str = Field("", max_length=128 * 1024, description="of a command; bash runs it")
    check: str = Field("", max_length=80, description="the name of a check of the environment")
    workspace: str = Field("", max_length=64, description="its key, or else `environment`")
    environment: str = Field("", max_length=80, description="each run gets a new workspace of it")
    catch_up: Literal["skip", "once"] = "skip"
    budget_minutes: int | None = Field(None, ge=1, le=schedules.MAX_MINUTES, description="then a person is asked")
    program: str | None = Field(None, max_length=60, description="empty: the first that the environment names")
    model: str | None = Field(None, max_length=100)
    task: str | None = Field(None, max_length=50_000, description="of an agent")
    budget_tokens: int | None = Field(None, ge=1, description="of an agent, for each run")
    budget_cost: Decimal | None = Field(None, gt=0, description="of an agent, for each run, at the team's prices")
    keep: int = Field(100, ge=1, le=schedules.MAX_KEEP, description="runs in the history")


class NewSchedule(ScheduleChange):
    name: str = Field(max_length=80)
    cron: str = Field(max_length=120, description="minute, hour, day of the month, month, day of the week")


class MoreMinutes(schemas.Strict):
    minutes: int = Field(ge=1, le=schedules.MAX_MINUTES)


class ScheduleOut(Schema):
    id: str
    name: str
    cron: str
    words: str
    zone: str
    next: list[datetime]
    kind: str
    command: str
    check: str
    program: str | None
    model: str | None
    task: str | None
    budget_tokens: int | None
    budget_cost: Decimal | None
    workspace: str | None
    environment: str
    catch_up: str
    budget_minutes: int | None
    keep: int
    owner: str | None
    paused_at: datetime | None
    created_at: datetime


class SchedulePage(Schema):
    schedules: list[ScheduleOut]
    cursor: str | None


class ScheduledRunOut(Schema):
    id: str
    due_at: datetime
    by_hand: bool
    state: str
    reason: str
    workspace: str | None
    command: str | None
    started_at: datetime | None
    ended_at: datetime | None
    exit_status: int | None
    output_bytes: int
    output_sha256: str
    asks_since: datetime | None
    agent_run: str | None = Field(description="of an agent: its run")


class ComparedRunsOut(Schema):
    run: str
    same_exit_status: bool
    seconds_more: float | None
    same_output: bool | None
    line: int | None
    was: str | None
    now: str | None


class ScheduledRunCompared(ScheduledRunOut):
    compared: ComparedRunsOut | None


class ScheduledRunPage(Schema):
    runs: list[ScheduledRunOut]
    cursor: str | None


@router.get("/schedules", response={200: SchedulePage} | PROBLEMS)
def list_schedules(request, cursor: str | None = None):
    """List schedules, the newest first."""
    rows = Schedule.objects.visible_to(request.auth).select_related("workspace", "owner")
    page = page_of(rows, cursor)
    return Status(200, {"schedules": [_out(schedule) for schedule in page.rows], "cursor": page.cursor})


@router.post("/schedules", response={201: ScheduleOut} | PROBLEMS)
def add_schedule(request, wish: NewSchedule):
    """Add a schedule, which runs with the caller's permissions. 422 names the field that is wrong."""
    team = team_of(request)
    if not request.auth.can("manage_schedules", team):
        raise not_allowed("You don't have permission to do this.")
    return Status(201, _out(schedules.add(team, wish.model_dump(), caller=request.auth)))


@router.get("/schedules/{schedule_id}", response={200: ScheduleOut} | PROBLEMS)
def get_schedule(request, schedule_id: str):
    """Return a schedule, with its next five times."""
    return Status(200, _out(_find(request, schedule_id)))


@router.patch("/schedules/{schedule_id}", response={200: ScheduleOut} | PROBLEMS)
def change_schedule(request, schedule_id: str, wish: ScheduleChange):
    """Change the fields that are given; from then on it runs with the caller's permissions."""
    schedule = _to_manage(request, schedule_id)
    return Status(200, _out(schedules.change(schedule, wish.model_dump(exclude_unset=True), caller=request.auth)))


@router.delete("/schedules/{schedule_id}", response={204: None} | PROBLEMS)
def delete_schedule(request, schedule_id: str):
    """Delete a schedule and its history. 409 while a run of it is open."""
    schedules.delete(_to_manage(request, schedule_id), caller=request.auth)
    return Status(204, None)


@router.post("/schedules/{schedule_id}/pause", response={200: ScheduleOut} | PROBLEMS)
def pause_schedule(request, schedule_id: str):
    """Start no more runs."""
    schedule = _to_manage(request, schedule_id)
    schedules.pause(schedule, caller=request.auth)
    return Status(200, _out(schedule))


@router.post("/schedules/{schedule_id}/resume", response={200: ScheduleOut} | PROBLEMS)
def resume_schedule(request, schedule_id: str):
    """Start runs again, from the next time on."""
    schedule = _to_manage(request, schedule_id)
    schedules.resume(schedule, caller=request.auth)
    return Status(200, _out(schedule))


@router.post("/schedules/{schedule_id}/run", response={201: ScheduledRunOut} | PROBLEMS)
def run_schedule(request, schedule_id: str):
    """Run it now, with the caller's permissions. 409 while a run of it is open."""
    run = schedules.run_now(_to_manage(request, schedule_id), caller=request.auth)
    return Status(201, _run_out(run))


@router.get("/schedules/{schedule_id}/runs", response={200: ScheduledRunPage} | PROBLEMS)
def list_runs(request, schedule_id: str, cursor: str | None = None):
    """List the runs of a schedule, the newest first."""
    rows = _find(request, schedule_id).runs.select_related("workspace")
    page = page_of(rows, cursor, order=Order("due_at"))
    return Status(200, {"runs": [_run_out(run) for run in page.rows], "cursor": page.cursor})


@router.get("/schedules/{schedule_id}/runs/{scheduled_run_id}", response={200: ScheduledRunCompared} | PROBLEMS)
def get_run(request, schedule_id: str, scheduled_run_id: str):
    """Return a run, and how it differs from the one before."""
    run = _find_run(_find(request, schedule_id), scheduled_run_id)
    return Status(200, _run_out(run) | {"compared": _compared(run)})


@router.post("/schedules/{schedule_id}/runs/{scheduled_run_id}/extend", response={200: ScheduledRunOut} | PROBLEMS)
def extend_run(request, schedule_id: str, scheduled_run_id: str, wish: MoreMinutes):
    """Answer a run that met its budget: let it run so many minutes more before it asks again."""
    run = _find_run(_to_manage(request, schedule_id), scheduled_run_id)
    schedules.let_run(run, wish.minutes, caller=request.auth)
    return Status(200, _run_out(run))


@router.post("/schedules/{schedule_id}/runs/{scheduled_run_id}/stop", response={202: ScheduledRunOut} | PROBLEMS)
def stop_run(request, schedule_id: str, scheduled_run_id: str):
    """Ask an open run to end."""
    run = _find_run(_to_manage(request, schedule_id), scheduled_run_id)
    schedules.stop(run, caller=request.auth)
    return Status(202, _run_out(run))


def _find(request, schedule_id: str) -> Schedule:
    return schedules.find(request.auth, as_uuid(schedule_id))


def _to_manage(request, schedule_id: str) -> Schedule:
    schedule = _find(request, schedule_id)
    if not request.auth.can("manage_schedules", schedule.team_id):
        raise not_allowed("You don't have permission to do this.")
    return schedule


def _find_run(schedule: Schedule, run_id: str) -> ScheduledRun:
    return lookup.find(schedule.runs.select_related("workspace", "command", "schedule"), as_uuid(run_id), "run")


def _out(schedule: Schedule) -> dict:
    names = ("name", "cron", "zone", "kind", "command", "environment", "catch_up", "budget_minutes", "keep")
    paused = schedule.paused_at is not None
    return {name: getattr(schedule, name) for name in (*names, "paused_at", "created_at")} | {
        "id": str(schedule.pk),
        "words": cron.in_words(schedule.cron),
        "next": [] if paused else cron.times(schedule.cron, schedule.zone, clock.now()),
        "check": schedule.check_name,
        **{name: schedule.agent_job.get(name) for name in schedules.AGENT_FIELDS},
        "workspace": schedule.workspace.key if schedule.workspace else None,
        "owner": schedule.owner.get_username() if schedule.owner else None,
    }


def _run_out(run: ScheduledRun) -> dict:
    names = ("due_at", "by_hand", "state", "reason", "started_at", "ended_at", "exit_status")
    return {name: getattr(run, name) for name in (*names, "output_bytes", "output_sha256")} | {
        "id": str(run.pk),
        "workspace": run.workspace.key if run.workspace else None,
        "command": str(run.command_id) if run.command_id else None,
        "asks_since": run.budget_asked_at,
        "agent_run": str(run.agent_run.pk) if hasattr(run, "agent_run") else None,
    }


def _compared(run: ScheduledRun) -> dict | None:
    found = schedules.compare(run)
    if found is None:
        return None
    names = ("same_exit_status", "seconds_more", "same_output", "line", "was", "now")
    return {name: getattr(found, name) for name in names} | {"run": str(found.before.pk)}
