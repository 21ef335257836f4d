"""Whether the owner of an agent may approve what it asks; a team can say that somebody else has to."""

from django.db import transaction

from dashboard.models import Actor, Event, Team
from dashboard.people import sole_approver
from dashboard.problems import conflict


@transaction.atomic
def change(team: Team, may: bool, *, by: Actor):
    """Say whether owners may approve what their own agents ask. Problem 409 while fewer than two people may decide."""
    Team.objects.take_turn(team.pk)  # an approval that is being counted ends first
    if not may and sole_approver.approvers(team).count() < 2:
        raise conflict(f"Fewer than two people may decide in {team}, so nobody could approve what an own agent asks.")
    if Team.objects.filter(pk=team.pk, owner_may_approve=not may).update(owner_may_approve=may):
        verb = "team.owner_may_approve" if may else "team.owner_may_not_approve"
        Event.objects.record(team, actor=by, verb=verb, subject=team)
