"""Pass a waiting call that nobody decided in time to the role or group that its policy names. It decides nothing."""

from datetime import datetime, timedelta

from django.db.models import Q

from approvals.actions.transitions import move
from approvals.models import Action, ApproverGroup, Notice, Status
from approvals.policy.escalation import Escalation
from dashboard.database import clock
from dashboard.models import Actor, Membership
from dashboard.people.access import ROLES

CLOCK = Actor.system("clock")
SWEEP_BATCH = 200  # calls that one sweep passes on; the next one continues


def fields_of(wanted: Escalation | None, now: datetime) -> dict:
    """Return the fields of a new action that waits."""
    if wanted is None:
        return {}
    to = {"role": wanted.role, "group": wanted.group}
    return {"escalate_at": now + timedelta(minutes=wanted.minutes), "escalates_to": to}


def due(now: datetime):
    """Return the calls that are to be passed on now."""
    return Action.objects.filter(_is_due(now))


def _is_due(now: datetime) -> Q:
    return Q(status=Status.PENDING, escalated_at=None, escalate_at__lte=now, expires_at__gt=now)


def sweep() -> int:
    """Pass on the calls that are due; return how many. Safe to run at any time and in any process."""
    now = clock.now()
    return sum(_pass_on(action, now) for action in due(now).select_related("team")[:SWEEP_BATCH])


def _pass_on(action: Action, now: datetime) -> bool:
    data = {name: value for name, value in action.escalates_to.items() if value}
    if not move(
        action, Status.PENDING, verb="action.escalated", by=CLOCK, when=_is_due(now), data=data, escalated_at=now
    ):
        return False
    # The next look of the queue tells them again, though they may have been told with everybody.
    to = people_of(action.team_id, action.escalates_to).values("user")
    Notice.objects.filter(action=action, user__in=to, closed_at=None).update(closed_at=now)
    return True


def people_of(team_id, to: dict):
    """Return the memberships of the people that `to` names: {role, group}, one of them empty."""
    members = Membership.objects.in_force().filter(team=team_id, user__is_active=True)
    if to["role"]:
        return members.filter(role__in=ROLES[ROLES.index(to["role"]) :])
    return members.filter(user__in=ApproverGroup.objects.filter(team=team_id, name=to["group"]).values("people"))


def is_passed_to(action: Action, user_id) -> bool:
    """Return whether the action was passed on to this person, among others."""
    if action.escalated_at is None:
        return False
    return people_of(action.team_id, action.escalates_to).filter(user=user_id).exists()
