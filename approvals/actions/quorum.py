"""Whether enough people have approved an action: so many of them, and one of the role that its policy names."""

from approvals.actions import own_agents
from approvals.actions.answer import APPROVE
from approvals.models import Action, Decision
from dashboard.models import Membership
from dashboard.people.access import ROLES, Caller


def votes(action: Action) -> list[Decision]:
    """Return the approvals of the current revision by people who may still approve it, oldest first."""
    deciders = [role for role in ROLES if Caller(roles={action.team_id: role}).can("decide", action.team_id)]
    people = Membership.objects.filter(team=action.team_id, role__in=deciders, user__is_active=True).values("user")
    given = action.decisions.filter(verdict=APPROVE, revision__number=action.revision, user__in=people)
    counted = given.select_related("user").order_by("at")
    return [vote for vote in counted if not own_agents.needs_another(action, vote.user_id)]


def is_met(team_id, users, people: int, role: str) -> bool:
    """Return whether these people (ids) are enough, one of them of the role or of one that may do more ("": any)."""
    return len(set(users)) >= people and not is_role_missing(team_id, users, role)


def is_role_missing(team_id, users, role: str) -> bool:
    """Return whether none of these people (ids) has the role now, or one that may do more; False if it is ""."""
    if not role:
        return False
    able = Membership.objects.in_force().filter(team=team_id, role__in=ROLES[ROLES.index(role) :])
    return not able.filter(user__in=list(users), user__is_active=True).exists()
