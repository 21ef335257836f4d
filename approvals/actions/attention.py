"""Whose turn a pending action is: hide it from oneself for a while, or ask one person by name. Both decide nothing."""

from datetime import datetime, timedelta

from django.db.models import Q

from approvals.actions import own_agents
from approvals.actions.decisions import may_approve_scope
from approvals.actions.expiry import end_if_due
from approvals.actions.transitions import answer_conflict, move
from approvals.models import Action, Notice, Snooze, Status
from dashboard.database import clock
from dashboard.models import Team
from dashboard.people import sole_approver
from dashboard.people.access import Caller
from dashboard.problems import conflict, invalid, not_allowed

MAX_MINUTES = 24 * 60
BACK_BEFORE = timedelta(minutes=5)  # the end of the action, when it is back in the list of who snoozed it


def snooze(action: Action, *, caller, minutes: int) -> datetime:
    """Hide the action, as it is now, from the caller alone; return until when. Problem 403, 409, 422.

    It comes back by itself: after `minutes`, BACK_BEFORE it expires, or once the call changes.
    """
    _require_open(action, caller)
    if not 1 <= minutes <= MAX_MINUTES:
        raise invalid(f"A snooze lasts 1 to {MAX_MINUTES:,} minutes.")
    now = clock.now()
    until = min(now + timedelta(minutes=minutes), action.expires_at - BACK_BEFORE)
    if until <= now:
        raise conflict("This expires within minutes, so it stays in your list.", code="too_late")
    Snooze.objects.update_or_create(action=action, user=caller.user, defaults={"digest": action.digest, "until": until})
    return until


def wake(action: Action, *, caller):
    """End the caller's snooze of the action, if there is one. Problem 403."""
    _require_reviewer(action, caller)
    Snooze.objects.filter(action=action, user=caller.user).delete()


def snoozed_until(action: Action, user, now: datetime) -> datetime | None:
    """Return until when the action is hidden from the person; None if it is not."""
    own = Snooze.objects.filter(action=action, user=user, digest=action.digest, until__gt=now)
    return own.values_list("until", flat=True).first()


def may_be_asked(action: Action) -> list:
    """Return the active people who may approve the action, by name."""
    memberships = sole_approver.approvers(action.team).select_related("user").order_by("user__username")
    return [
        one.user
        for one in memberships
        if not own_agents.needs_another(action, one.user_id)
        and may_approve_scope(action, Caller(roles={action.team_id: one.role}, user=one.user))
    ]


def pass_to(action: Action, *, caller, name: str):
    """Ask one person by name to decide: they are notified, and it is first in their list. Others may decide too.

    Problem 403; 409 if it is no longer open; 422 if the person may not approve it.
    """
    _require_open(action, caller)
    person = next((user for user in may_be_asked(action) if user.get_username() == name), None)
    if person is None:
        raise invalid(f"{name[:150]} may not approve this.")
    with Team.objects.turn(action.team_id):
        still_open = Q(status=Status.PENDING, expires_at__gt=clock.now())
        data = {"to": person.get_username()}
        by = caller.actor
        passed = move(action, Status.PENDING, verb="action.passed", by=by, when=still_open, data=data, asked_of=person)
        if passed:
            Snooze.objects.filter(action=action, user=person).delete()
            # The next look of the queue tells them again, though they may have been told with everybody.
            Notice.objects.filter(action=action, user=person, closed_at=None).update(closed_at=clock.now())
    if not passed:
        action.refresh_from_db()
        raise answer_conflict(end_if_due(action))


def _require_open(action: Action, caller):
    _require_reviewer(action, caller)
    if end_if_due(action).status != Status.PENDING:
        raise answer_conflict(action)


def _require_reviewer(action: Action, caller):
    if not caller.is_person or not caller.can("decide", action.team_id):
        raise not_allowed("Only a reviewer, lead or admin can do this.")
