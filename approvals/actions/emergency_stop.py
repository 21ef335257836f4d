"""Emergency stop: cancel requests and unused approvals, stop all programs and workspaces until a lead lifts it."""

from django.db import transaction

from approvals.actions.transitions import LIVE, withdraw
from approvals.models import Action, ActionEndCode, Grant, Status
from dashboard.database import clock
from dashboard.models import Event, Team
from dashboard.problems import conflict, not_allowed
from workspaces.services import stop_all

STOPPED = "Stopped by a person. Do not retry. Wait until you are told to go on."


def preview(team) -> dict[str, int]:
    """Return what a stop would end now, as counts: {waiting, unused, commands, services, terminals, workspaces}.

    `waiting` are requests that need approval, `unused` approvals that no agent has picked up.
    """
    statuses = Action.objects.filter(LIVE, team=team).values_list("status", flat=True)
    waiting = sum(status == Status.PENDING for status in statuses)
    return {"waiting": waiting, "unused": len(statuses) - waiting} | stop_all.running(team)


def stop_everything(team: Team, *, caller) -> dict[str, int]:
    """Stop the team; return counts of what was ended, as `preview`, and `withdrawn`, the first two together.

    Problem 403, or 409 if it is stopped already.
    """
    if not caller.can("stop_everything", team):
        raise not_allowed("Only a reviewer, lead or admin can stop everything.")
    now, by = clock.now(), caller.actor
    with Team.objects.turn(team.pk):
        if not Team.objects.filter(pk=team.pk, stopped_at=None).update(stopped_at=now, stopped_by=caller.user):
            raise conflict("Everything is already stopped.")
        live = list(Action.objects.filter(LIVE, team=team))
        ended = [(action.status, withdraw(action, by, STOPPED, code=ActionEndCode.STOPPED)) for action in live]
        waiting = sum(done for status, done in ended if status == Status.PENDING)
        withdrawn = sum(done for _, done in ended)
        Grant.objects.active(now).filter(team=team).update(revoked_at=now)
        data = {"withdrawn": withdrawn} | stop_all.running(team)
        Event.objects.record(team, actor=by, verb="team.stopped", subject=team, data=data)
    team.refresh_from_db()
    counts = {"withdrawn": withdrawn, "waiting": waiting, "unused": withdrawn - waiting}
    return counts | stop_all.end(team, by=by)


def lift_stop(team: Team, *, caller):
    """Lift the team's stop; what was cancelled or ended stays so. Problem 403, or 409 if the team is not stopped."""
    if not caller.can("lift_stop", team):
        raise not_allowed("Only a lead or admin can resume.")
    with transaction.atomic():
        if not Team.objects.filter(pk=team.pk, stopped_at__isnull=False).update(stopped_at=None, stopped_by=None):
            raise conflict("Nothing is stopped.")
        Event.objects.record(team, actor=caller.actor, verb="team.lifted", subject=team)
    team.refresh_from_db()
