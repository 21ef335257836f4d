"""Start what a scheduled run runs, as its owner, or as the person who started it by hand."""

from django.db import transaction

from dashboard.models import Actor
from dashboard.people.access import Caller, caller_of
from dashboard.problems import Problem, conflict, not_allowed
from workspaces import extensions, lifecycle, operations
from workspaces.models import JobKind, ScheduledRun, ScheduledState, State, Workspace
from workspaces.services import commands
from workspaces.services.schedules.changes import MAX_MINUTES

SECONDS = MAX_MINUTES * 60  # the longest that a command may run; a budget asks long before, and ends nothing
COMES_UP = (State.CREATING, State.SETTING_UP)
NEEDS_RESUME = (State.STOPPED, State.ARCHIVED)


def responsible(run: ScheduledRun) -> Caller:
    """Return the person with whose permissions the run starts. Problem 403 if they may not (any more)."""
    schedule = run.schedule
    person = run.asked_by if run.by_hand else schedule.owner
    if person is None:
        raise not_allowed("The person who answered for this schedule is no longer here. Save it to answer for it.")
    caller = caller_of(person).only_in(schedule.team_id)
    verbs = ["use_workspace"] if schedule.workspace_id else ["create_workspace", "use_workspace"]
    verbs += ["start_agents"] if schedule.kind == JobKind.AGENT else []
    if not all(caller.can(verb, schedule.team_id) for verb in verbs):
        raise not_allowed(f"{person} may no longer run this in this team. Another lead can save this schedule.")
    return caller


def actor_of(run: ScheduledRun, caller: Caller) -> Actor:
    """Return the person as the author of what the schedule does."""
    own = caller.actor
    return Actor(own.type, own.id, f"{own.label} (schedule {run.schedule.name})"[:200])


def begin(run: ScheduledRun):
    """Bring the run one step towards its command or agent, in the caller's transaction. Problem if it cannot start.

    That step is to create or resume its workspace, or to start the job. The caller saves `run`, which it changes.
    """
    caller = responsible(run)
    if run.workspace_id is None:
        run.workspace = _place(run, caller)
    workspace = run.workspace
    _refuse_failed(run)
    if run.schedule.kind == JobKind.AGENT:
        extensions.ports.agent_jobs.start(run, workspace, caller)  # which brings the workspace up itself
        run.state = ScheduledState.RUNNING
        return
    if workspace.state in COMES_UP:
        return
    by = actor_of(run, caller)
    if workspace.state in NEEDS_RESUME:
        if run.preparing_id is None:
            run.preparing = lifecycle.resume(workspace, by=by)
        return
    run.command = commands.run_command(workspace, _wish(run), by=by, idempotency_key=f"schedule-{run.pk}")
    run.state = ScheduledState.RUNNING


def _wish(run: ScheduledRun) -> dict:
    schedule = run.schedule
    job = {"check": schedule.check_name} if schedule.kind == JobKind.CHECK else {"command": schedule.command}
    return job | {"timeout_s": SECONDS}


def _place(run: ScheduledRun, caller: Caller) -> Workspace:
    """Return the schedule's workspace, or make a new one of its environment."""
    schedule = run.schedule
    if schedule.workspace:
        return schedule.workspace
    words = "".join(each if each.isascii() and each.isalnum() else "-" for each in schedule.name.lower())
    key = f"{words.strip('-')[:40].strip('-') or 'scheduled'}-{run.pk.hex[:8]}"
    wish = {"environment": schedule.environment, "labels": {"schedule": schedule.name}, "fresh": True}
    return lifecycle.create(schedule.team, key, caller=caller, wish=wish)[0]


def _refuse_failed(run: ScheduledRun):
    workspace, preparing = run.workspace, run.preparing
    if workspace.trashed_at:
        raise conflict(f"{workspace.key} is in the trash.")
    if workspace.state == State.FAILED:
        raise conflict(f"{workspace.key} has failed: {workspace.reason}")
    if preparing and operations.is_over(preparing) and not (preparing.outcome or {}).get("ok"):
        raise conflict((preparing.outcome or {}).get("reason") or f"{workspace.key} did not resume.")


def attempt(run: ScheduledRun) -> str:
    """Begin, in a transaction of its own within the caller's; return why it cannot start, or ""."""
    try:
        with transaction.atomic():
            begin(run)
    except Problem as problem:
        return problem.detail
    return ""
