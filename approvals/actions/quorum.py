"""Whether enough people have approved an action: so many, and one of the role and of each group that a policy names."""

from approvals.actions import own_agents
from approvals.actions.answer import APPROVE
from approvals.models import Action, ApproverGroup, Decision
from approvals.policy.people import Takes
from dashboard.models import Membership
from dashboard.people.access import ROLES, Caller


def votes(action: Action) -> list[Decision]:
    """Return the approvals of the current revision by people who may still approve it, oldest first."""
    deciders = [role for role in ROLES if Caller(roles={action.team_id: role}).can("decide", action.team_id)]
    people = Membership.objects.filter(team=action.team_id, role__in=deciders, user__is_active=True).values("user")
    given = action.decisions.filter(verdict=APPROVE, revision__number=action.revision, user__in=people)
    counted = given.select_related("user").order_by("at")
    return [vote for vote in counted if not own_agents.needs_another(action, vote.user_id)]


def is_met(team_id, users, takes: Takes) -> bool:
    """Return whether these people (ids) are those that an approval takes."""
    return missing(team_id, users, takes) is None


def missing(team_id, users, takes: Takes) -> Takes | None:
    """Return who is still to approve when these people (ids) have: so many, of the role, of the groups; None if nobody.

    There may be fewer people left than groups: one person can be in several.
    """
    given = set(users)
    role = takes.role if takes.role and not _has_role(team_id, given, takes.role) else ""
    groups = [name for name in takes.groups if not _has_member(team_id, given, name)]
    people = takes.people - len(given)
    if people <= 0 and not role and not groups:
        return None
    return Takes(max(1, people), role, tuple(groups))


def _has_role(team_id, users, role: str) -> bool:
    """Return whether one of these people has the role now, or one that may do more."""
    able = Membership.objects.in_force().filter(team=team_id, role__in=ROLES[ROLES.index(role) :])
    return able.filter(user__in=users, user__is_active=True).exists()


def _has_member(team_id, users, name: str) -> bool:
    """Return whether one of these people is in the team's group of this name now."""
    return ApproverGroup.objects.filter(team=team_id, name=name, people__in=users, people__is_active=True).exists()
