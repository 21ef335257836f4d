"""What puts a workspace to sleep and to rest: the sweep of the runner, and who asks it to wait."""

from contextlib import suppress
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import OuterRef, Subquery

from dashboard import clock
from dashboard.models import Actor
from dashboard.problems import Problem, invalid
from workspaces import lifecycle
from workspaces.activity import idle_after, stops_after, why_awake
from workspaces.models import Run, State, Workspace

IDLE = Actor.system("idle")
LONGEST = timedelta(days=7)  # a workspace is not kept awake for longer by one wish


def keep_awake(workspace, until: datetime | None, *, by: Actor):
    """Do not sleep before `until`, whatever happens or does not; None takes that back. A sleeping one wakes."""
    now = clock.now()
    if until is not None and not now < until <= now + LONGEST:
        raise invalid(f"Keep it awake until a time within the next {LONGEST.days} days.")
    with transaction.atomic():
        if until is not None:
            lifecycle.wake(workspace, by=by)
        Workspace.objects.filter(pk=workspace.pk).update(awake_until=until)
        data = {"until": until.isoformat() if until else None}
        lifecycle.record(workspace, by, "workspace.kept_awake", data)
    workspace.awake_until = until


def sweep(runner):
    """Put to sleep what has nothing to do, and to rest what has slept for long."""
    here = Workspace.objects.kept().filter(runner=runner).select_related("environment", "team")
    _pause(here.filter(state=State.READY))
    ended = Run.objects.filter(workspace=OuterRef("pk")).order_by("-started_at").values("ended_at")[:1]
    _stop(here.filter(state=State.PAUSED).annotate(asleep_since=Subquery(ended)))


def _pause(ready):
    now = clock.now()
    for workspace in ready:
        kept = workspace.awake_until and workspace.awake_until > now
        if kept or (workspace.last_active_at and now - workspace.last_active_at <= idle_after(workspace)):
            continue  # by far the most; the rest costs a look at what runs
        if why_awake(workspace).is_over:
            with suppress(Problem):  # it has just become something else
                lifecycle.pause(workspace, by=IDLE, unless_used_since=now)


def _stop(paused):
    for workspace in paused:
        since = workspace.asleep_since or workspace.last_active_at
        if since and clock.now() - since > stops_after(workspace):
            with suppress(Problem):
                lifecycle.stop(workspace, by=IDLE)
