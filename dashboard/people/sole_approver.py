"""Single-approver mode: while a team never had a second person who may approve, one may approve critical actions."""

from django.db import transaction

from dashboard.database import clock
from dashboard.models import Actor, Event, Membership, Role, Team
from dashboard.problems import conflict


def approvers(team: Team):
    """Return the memberships of active people who may approve."""
    return Membership.objects.filter(team=team, user__is_active=True).exclude(role=Role.VIEWER)


def close(team: Team):
    """Close the mode for good if two people may approve; called after each change of members."""
    if approvers(team).count() > 1:
        Team.objects.filter(pk=team.pk, solo_closed_at=None).update(solo_closed_at=clock.now())


def is_alone(team: Team, user) -> bool:
    """Return True if this is the only person who may approve, in a team where the mode is allowed and not closed."""
    if not team.allows_solo or team.solo_closed_at:
        return False
    return list(approvers(team).values_list("user", flat=True)[:2]) == [user.pk]


@transaction.atomic
def reopen(team: Team, *, by: Actor):
    """Reopen the mode. Raise Problem 409 while two people may approve, or if it is open."""
    if approvers(team).count() > 1:
        raise conflict(f"More than one person may approve in {team}.")
    if not Team.objects.filter(pk=team.pk, solo_closed_at__isnull=False).update(solo_closed_at=None):
        raise conflict(f"Approval by a single person is already allowed in {team}.")
    Event.objects.record(team, actor=by, verb="team.solo_reopened", subject=team)
