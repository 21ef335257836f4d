"""Change who is in a team and with which role, from pages and the Django admin alike; each change records an event."""

from django.db import transaction

from dashboard.database import clock
from dashboard.models import Actor, Event, Membership, Role, Team, Token
from dashboard.people import sole_approver, sso
from dashboard.people.tokens import end_sign_in_links
from dashboard.problems import conflict, invalid


@transaction.atomic
def add(team: Team, user, role: str, *, by: Actor, groups: list[str] | None = None) -> Membership:
    """Add a person to the team. Raise Problem 409 for a member of it, 422 for an unknown role.

    `groups`: those of the identity provider that give the role.
    """
    _check(role)
    told = {"role": role, "confirmed_at": clock.now() if groups else None}
    membership, created = Membership.objects.get_or_create(team=team, user=user, defaults=told)
    if not created:
        raise conflict(f"{user} is already in {team}. Change the role on the Team page.")
    Event.objects.record(team, actor=by, verb="person.added", subject=user, data={"role": role} | _groups(groups))
    sole_approver.close(team)
    return membership


@transaction.atomic
def change_role(membership: Membership, role: str, *, by: Actor, groups: list[str] | None = None):
    """Change a member's role. Raise Problem 409 if the team would be left without an active admin.

    A role from groups is changed only by them, and whatever it leaves.
    """
    _check(role)
    Team.objects.take_turn(membership.team_id)
    if groups is None:
        _refuse_by_hand(membership)
        _keep_one_admin(membership, role)
    Membership.objects.filter(pk=membership.pk).update(role=role, confirmed_at=clock.now() if groups else None)
    data = {"was": membership.role, "role": role} | _groups(groups)
    Event.objects.record(membership.team, actor=by, verb="person.role_changed", subject=membership.user, data=data)
    sole_approver.close(membership.team)


@transaction.atomic
def remove(membership: Membership, *, by: Actor, groups: list[str] | None = None):
    """Remove a person from the team and revoke the tokens held in it.

    Raise Problem 409 for the only admin, unless it is their `groups` that no longer give a role.
    """
    if groups is None:
        _keep_one_admin(membership, None)
    user, team = membership.user, membership.team
    Token.objects.filter(team=team, user=user, revoked_at=None).update(revoked_at=clock.now())
    if not user.memberships.exclude(pk=membership.pk).exists():
        end_sign_in_links(user)
    Membership.objects.filter(pk=membership.pk).delete()
    verb = "person.removed" if user.last_login else "person.invitation_withdrawn"
    data = {"role": membership.role} | _groups(groups)
    Event.objects.record(team, actor=by, verb=verb, subject=user, data=data)


def teams_without_another_admin(user) -> list[Team]:
    """Return the teams that would have no active admin without this person."""
    others = Membership.objects.filter(role=Role.ADMIN, user__is_active=True).exclude(user=user)
    return list(
        Team.objects.filter(memberships__user=user, memberships__role=Role.ADMIN).exclude(pk__in=others.values("team"))
    )


def _groups(groups: list[str] | None) -> dict:
    return {} if groups is None else {"groups": groups}


def _refuse_by_hand(membership: Membership):
    """Raise Problem 409 for a role that comes from groups, while there is an identity provider to give it again."""
    provider = sso.in_force()
    if membership.confirmed_at and provider:
        raise conflict(f"The role of {membership.user} comes from groups at {provider.name}. Change it there.")


def _check(role: str):
    if role not in Role.values:
        raise invalid(f"A role is one of {', '.join(Role.values)}.")


def _keep_one_admin(membership: Membership, role: str | None):
    """Check under the team's lock, so that two admins who demote each other at once cannot both succeed."""
    Team.objects.take_turn(membership.team_id)
    of_team = Membership.objects.filter(team=membership.team_id)
    membership.role = of_team.filter(pk=membership.pk).values_list("role", flat=True).first()
    if membership.role is None:
        raise conflict(f"{membership.user} is no longer in {membership.team}.")
    others = of_team.filter(role=Role.ADMIN, user__is_active=True).exclude(pk=membership.pk)
    if membership.role == Role.ADMIN and role != Role.ADMIN and not others.exists():
        raise conflict(f"{membership.user} is the only admin of {membership.team}; make another person admin first.")
