"""Pause idle workspaces, stop long-paused ones, archive ephemeral ones, and keep a workspace awake on request."""

from contextlib import suppress
from datetime import datetime, timedelta

from django.conf import settings
from django.db.models import F, OuterRef, Q, Subquery

from dashboard.database import clock
from dashboard.models import Actor, Team
from dashboard.problems import Problem, invalid
from workspaces import lifecycle
from workspaces.lifecycle.activity import idle_after, stops_after, why_awake
from workspaces.models import Operation, Run, State, StateCode, Workspace
from workspaces.operations import needs_approval

IDLE = Actor.system("idle")
EPHEMERAL = Actor.system("ephemeral")
MAX_KEEP_AWAKE = timedelta(days=7)  # the longest that one request keeps a workspace awake


def keep_awake(workspace, until: datetime | None, *, by: Actor):
    """Do not pause the workspace before `until`, even when idle; None cancels that. A paused one resumes."""
    now = clock.now()
    if until is not None and not now < until <= now + MAX_KEEP_AWAKE:
        raise invalid(f"Choose a time within the next {MAX_KEEP_AWAKE.days} days.")
    needs_approval.require(workspace, "awake", {"until": until.isoformat() if until else None}, by=by)
    with Team.objects.turn(workspace.team_id):
        if until is not None:
            lifecycle.resume_for_use(workspace, by=by)
        Workspace.objects.filter(pk=workspace.pk).update(awake_until=until)
        data = {"until": until.isoformat() if until else None}
        lifecycle.record(workspace, by, "workspace.kept_awake", data)
    workspace.awake_until = until


def due(runner):
    """Return what `sweep` has to look at: (those that may be idle, those that may be paused for long, …ephemeral)."""
    now = clock.now()
    idle = timedelta(seconds=settings.HANDRAIL_IDLE_SECONDS)
    unused = Q(last_active_at=None) | Q(last_active_at__lt=now - idle) | Q(environment__idle_seconds__gt=0)
    ready = _ready(runner).filter(unused).not_connected_folders().exclude(awake_until__gt=now)
    since = Q(asleep_since=None) | Q(asleep_since__lt=now - timedelta(seconds=settings.HANDRAIL_STOP_SECONDS))
    long = since | Q(environment__stop_seconds__gt=0) | Q(environment__ephemeral=True)
    return ready, _paused(runner).filter(long), _not_archived(runner)


def sweep(runner):
    """Pause the idle workspaces of this runner, and stop those paused for long.

    Those of an ephemeral environment are stopped at once, also if they were paused before it was ephemeral, and
    archived.
    """
    _pause(_ready(runner).select_related("environment", "team"))
    _stop(_paused(runner).select_related("environment", "team"))
    _archive(_not_archived(runner).select_related("environment", "team"))


def _ready(runner):
    here = Workspace.objects.kept().filter(runner=runner, state=State.READY)
    return here.exclude(reason_code__in=StateCode.out_of_reach())


def _ended():
    """Return when the newest Run of a workspace ended, as an expression."""
    return Subquery(Run.objects.filter(workspace=OuterRef("pk")).order_by("-started_at").values("ended_at")[:1])


def _paused(runner):
    return Workspace.objects.kept().filter(runner=runner, state=State.PAUSED).annotate(asleep_since=_ended())


def _not_archived(runner):
    """Return the stopped workspaces of ephemeral environments that nobody tried to archive since their run ended."""
    stopped = Workspace.objects.kept().filter(runner=runner, state=State.STOPPED, environment__ephemeral=True)
    tried = Operation.objects.filter(kind="put_away", workspace=OuterRef("pk")).order_by("-created_at")
    rows = stopped.exclude(head=None).annotate(ended=_ended(), tried=Subquery(tried.values("created_at")[:1]))
    return rows.filter(Q(tried=None) | Q(tried__lt=F("ended")), ended__isnull=False, missing_snapshot="")


def _pause(ready):
    now = clock.now()
    for workspace in ready:
        kept = workspace.awake_until and workspace.awake_until > now
        if kept or (workspace.last_active_at and now - workspace.last_active_at <= idle_after(workspace)):
            continue  # most workspaces end here; `why_awake` costs queries
        if why_awake(workspace).is_over:
            end = lifecycle.stop if workspace.environment.ephemeral else lifecycle.pause
            with suppress(Problem):  # its state has just changed
                end(workspace, by=IDLE, unless_used_since=now)


def _stop(paused):
    for workspace in paused:
        since = workspace.asleep_since or workspace.last_active_at
        if workspace.environment.ephemeral or (since and clock.now() - since > stops_after(workspace)):
            with suppress(Problem):
                lifecycle.stop(workspace, by=IDLE)


def _archive(stopped):
    """Archive ephemeral workspaces, once for each run that ended: a person tries again what could not be archived."""
    for workspace in stopped:
        with suppress(Problem), Team.objects.turn(workspace.team_id):  # its state has just changed
            if not Operation.objects.open().filter(workspace=workspace, exclusive=True).exists():
                lifecycle.archive(workspace, by=EPHEMERAL)
