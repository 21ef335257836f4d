"""Add, change, pause, resume and delete schedules. Whoever saves one is its owner: it runs with their permissions."""

from django.db import IntegrityError

from dashboard.database import clock
from dashboard.models import Event, Team
from dashboard.people.access import Caller
from dashboard.problems import conflict, invalid, not_found
from workspaces import extensions
from workspaces.models import CatchUp, Environment, JobKind, Schedule, Workspace
from workspaces.operations import absent
from workspaces.provisioning import eligibility
from workspaces.services.commands import COMMAND_BYTES
from workspaces.services.schedules import cron

FIELDS = ("name", "cron", "zone", "kind", "command", "check", "workspace", "environment", "catch_up", "budget_minutes")
FIELDS += ("keep",)
AGENT_FIELDS = ("program", "model", "task", "budget_tokens", "budget_cost")  # of the job of an agent
FIELDS += AGENT_FIELDS
MAX_KEEP = 1000
MAX_MINUTES = 7 * 24 * 60
MAX_SCHEDULES = 200  # of a team


def find(caller: Caller, schedule_id) -> Schedule:
    """Return a schedule that the caller may see. Problem 404."""
    rows = Schedule.objects.visible_to(caller).select_related("team", "workspace__environment", "owner")
    found = rows.filter(pk=schedule_id).first() if schedule_id else None
    if found is None:
        raise not_found("schedule")
    return found


def wish_of(schedule: Schedule) -> dict:
    """Return what was wished for a schedule, in the form that `add` and `change` take."""
    same = ("name", "cron", "zone", "kind", "command", "environment", "catch_up", "budget_minutes", "keep")
    told = {name: getattr(schedule, name) for name in same}
    told |= {name: schedule.agent_job.get(name) for name in AGENT_FIELDS}
    return told | {"check": schedule.check_name, "workspace": schedule.workspace.key if schedule.workspace else ""}


def add(team, wish: dict, *, caller: Caller) -> Schedule:
    """Add a schedule; `wish` has some of FIELDS. Problem 422 for a field (named in `field`), 409 for a name in use."""
    if Schedule.objects.filter(team=team).count() >= MAX_SCHEDULES:
        raise conflict(f"A team has at most {MAX_SCHEDULES} schedules.")
    schedule = Schedule(team=team, created_at=clock.now())
    return _save(schedule, wish, caller, "schedule.added")


def change(schedule: Schedule, wish: dict, *, caller: Caller) -> Schedule:
    """Change the fields that `wish` has; the caller is the owner from then on. Problems as for `add`."""
    return _save(schedule, wish_of(schedule) | wish, caller, "schedule.changed")


def _save(schedule: Schedule, wish: dict, caller: Caller, verb: str) -> Schedule:
    before = {} if schedule._state.adding else wish_of(schedule)
    _read(schedule, wish, caller)
    schedule.owner = caller.user
    if not schedule.paused_at:
        schedule.next_due_at = cron.following(schedule.cron, schedule.zone, clock.now())
    try:
        with Team.objects.turn(schedule.team_id):
            schedule.save()
            _record(schedule, caller, verb, changed=_changed(before, wish_of(schedule)))
    except IntegrityError:
        raise conflict(f"Your team has a schedule named {schedule.name!r} already.", field="name") from None
    return schedule


def _changed(before: dict, after: dict) -> list[str]:
    return sorted(name for name, value in after.items() if before and before[name] != value)


def _read(schedule: Schedule, wish: dict, caller: Caller):
    schedule.name = _name(wish.get("name"))
    schedule.zone = wish.get("zone") or "UTC"
    schedule.cron = cron.check(wish.get("cron") or "", schedule.zone)
    schedule.kind = wish.get("kind") or JobKind.COMMAND
    if schedule.kind not in JobKind.values:
        raise invalid(f"A job is one of: {', '.join(JobKind.values)}.", field="kind")
    schedule.catch_up = wish.get("catch_up") or CatchUp.SKIP
    if schedule.catch_up not in CatchUp.values:
        raise invalid(f"The rule for missed times is one of: {', '.join(CatchUp.values)}.", field="catch_up")
    schedule.budget_minutes = wish.get("budget_minutes") or None
    if schedule.budget_minutes and not 1 <= schedule.budget_minutes <= MAX_MINUTES:
        raise invalid(f"Give 1 to {MAX_MINUTES:,} minutes, or none.", field="budget_minutes")
    schedule.keep = wish.get("keep") or 100
    if not 1 <= schedule.keep <= MAX_KEEP:
        raise invalid(f"Keep 1 to {MAX_KEEP:,} runs.", field="keep")
    _read_place(schedule, wish, caller)
    _read_job(schedule, wish)


def _name(name: str | None) -> str:
    name = " ".join((name or "").split())
    if not name or len(name) > 80 or not name.isprintable():
        raise invalid("Give it a name of at most 80 characters.", field="name")
    return name


def _read_place(schedule: Schedule, wish: dict, caller: Caller):
    key, environment = wish.get("workspace") or "", wish.get("environment") or ""
    if bool(key) == bool(environment):
        raise invalid("Choose a workspace, or an environment for a new one each time.", field="workspace")
    schedule.workspace, schedule.environment = None, ""
    if environment:
        schedule.environment = eligibility.find_environment(schedule.team, environment, caller).name
        return
    named = Workspace.objects.visible_to(caller).filter(team=schedule.team, key=key)
    schedule.workspace = named.kept().select_related("environment").first()
    if schedule.workspace is None:
        problem = absent.refusal_of_key(named)
        words = problem.detail if named.exists() else f"There is no workspace {key!r}."
        raise invalid(words, field="workspace", **problem.extra)


def _read_job(schedule: Schedule, wish: dict):
    schedule.command = schedule.check_name = ""
    schedule.agent_job = {}
    if schedule.kind == JobKind.AGENT:
        job = {name: wish.get(name) for name in AGENT_FIELDS} | {"budget_minutes": schedule.budget_minutes}
        schedule.agent_job = extensions.ports.agent_jobs.check(environment_of(schedule), schedule.team, job)
        return
    if schedule.kind == JobKind.CHECK:
        name = wish.get("check") or ""
        if name not in environment_of(schedule).checks:
            raise invalid(f"The environment has no check named {name!r}.", field="check")
        schedule.check_name = name
        return
    text = (wish.get("command") or "").replace("\r\n", "\n")
    if not text.strip() or "\0" in text or len(text.encode("utf-8", "surrogatepass")) > COMMAND_BYTES:
        raise invalid(f"Give a command of at most {COMMAND_BYTES:,} bytes, without NUL.", field="command")
    schedule.command = text


def environment_of(schedule: Schedule) -> Environment:
    """Return the environment of its workspace, or the newest version of the one that it names."""
    if schedule.workspace:
        return schedule.workspace.environment
    rows = Environment.objects.filter(team=schedule.team_id, name=schedule.environment)
    return rows.order_by("-version").first()


def pause(schedule: Schedule, *, caller: Caller):
    """Start no more runs; one that is open goes on. Nothing happens if it is paused."""
    with Team.objects.turn(schedule.team_id):
        if Schedule.objects.filter(pk=schedule.pk, paused_at=None).update(paused_at=clock.now(), next_due_at=None):
            _record(schedule, caller, "schedule.paused")
    schedule.refresh_from_db()


def resume(schedule: Schedule, *, caller: Caller):
    """Start runs again, from the next time on: what was due meanwhile is not caught up."""
    due = cron.following(schedule.cron, schedule.zone, clock.now())
    with Team.objects.turn(schedule.team_id):
        paused = Schedule.objects.filter(pk=schedule.pk).exclude(paused_at=None)
        if paused.update(paused_at=None, next_due_at=due):
            _record(schedule, caller, "schedule.resumed")
    schedule.refresh_from_db()


def delete(schedule: Schedule, *, caller: Caller):
    """Delete it with its history; commands and workspaces of its runs stay. Problem 409 while one is open."""
    with Team.objects.turn(schedule.team_id):
        Schedule.objects.locked().get(pk=schedule.pk)
        if any(run.is_open for run in schedule.runs.all()):
            raise conflict("A run of it hasn't ended. Stop that first.")
        _record(schedule, caller, "schedule.deleted")
        schedule.delete()


def _record(schedule: Schedule, caller: Caller, verb: str, **more):
    data = {"name": schedule.name, "cron": schedule.cron, "zone": schedule.zone, "job": schedule.job[:500]}
    data |= {"environment": schedule.environment} if schedule.environment else {}
    data |= {name: value for name, value in more.items() if value}
    place = schedule.workspace_id
    Event.objects.record(schedule.team_id, actor=caller.actor, verb=verb, subject=schedule, workspace=place, data=data)
