"""Sweeps as operations of a team: requested by the queue or a person, carried out by the runner, with a report.

A stopped or killed sweep has deleted whole batches, each with its event. It is continued by the next one.
"""

from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import OuterRef, Subquery
from django.db.models.functions import Coalesce

from dashboard.database import clock
from dashboard.models import Actor, Event, Team
from dashboard.problems import conflict
from workspaces import operations
from workspaces.models import Hold, Operation, Phase
from workspaces.services.retention import holds
from workspaces.services.retention.actor import SWEEPER

KIND = "retention_sweep"
LATE_AFTER = timedelta(days=2)  # twice the time between two sweeps
KEPT = 30  # finished sweeps of a team that are kept


def of_team(team):
    """Return the team's sweeps, the newest first."""
    return Operation.objects.filter(team=team, kind=KIND).order_by("-created_at")


def request(team, *, by: Actor, dry_run: bool = False) -> Operation:
    """Request a sweep now. A dry run reports what would be deleted. Problem 409 while one is in progress."""
    with transaction.atomic():
        found = operations.submit_for_team(KIND, team=team, args={"dry_run": dry_run}, by=by)
        if found is None:
            raise conflict("A sweep is already in progress.")
        data = {"dry_run": dry_run}
        Event.objects.record(team, actor=by, verb="retention.sweep_asked", subject=team, data=data)
    return found


def request_for_all() -> list[Operation]:
    """Request the daily sweep of each team, unless one is in progress there."""
    args = {"dry_run": False}
    asked = [operations.submit_for_team(KIND, team=team, args=args, by=SWEEPER) for team in Team.objects.all()]
    return [found for found in asked if found is not None]


def stop(team, *, by: Actor) -> Operation:
    """Stop the sweep in progress after its current batch. Problem 409 if there is none, or it is stopping already."""
    with Team.objects.turn(team.pk):
        found = of_team(team).open().first()
        if found is None or not operations.request_cancel(found):
            raise conflict("No sweep is in progress, or it is already stopping.")
        Event.objects.record(team, actor=by, verb="retention.sweep_stopped", subject=team)
    found.refresh_from_db()
    return found


def put_off(team, days: int, *, by: Actor, reason: str = "") -> Hold:
    """Put off every sweep of the team for some days: a hold on the whole team."""
    until: datetime = clock.now() + timedelta(days=days)
    return holds.hold(team, reason=reason.strip() or "sweeps put off", until=until, by=by)


def late(team_ids) -> list[tuple[Team, datetime]]:
    """Return (team, when its last complete sweep ended) of the teams without one for twice the interval."""
    whole = Operation.objects.filter(team=OuterRef("pk"), kind=KIND, phase=Phase.SETTLED, outcome__ok=True)
    last = whole.filter(args__dry_run=False).order_by("-settled_at").values("settled_at")[:1]
    teams = Team.objects.filter(pk__in=team_ids).annotate(swept_at=Coalesce(Subquery(last), "created_at"))
    found = teams.filter(swept_at__lt=clock.now() - LATE_AFTER).order_by("name")
    return [(team, team.swept_at) for team in found]


def say_if_late(now: datetime | None = None):
    """Record for each team, once a day, that its sweep has not run; the queue calls this every hour."""
    today = (now or clock.now()) - timedelta(days=1)
    for team, since in late(Team.objects.values("pk")):
        with Team.objects.turn(team.pk):
            if not Event.objects.filter(team=team, verb="retention.late", at__gt=today).exists():
                data = {"since": since.isoformat()}
                Event.objects.record(team, actor=SWEEPER, verb="retention.late", subject=team, data=data)


def forget_old(team):
    """Delete the team's sweeps beyond the newest KEPT; their deletions stay in the log."""
    old = of_team(team).values_list("pk", flat=True)[KEPT:]
    Operation.objects.filter(pk__in=list(old)).delete()
