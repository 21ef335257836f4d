"""Roles from groups of the identity provider: which a person has, and giving, changing and taking them.

A role that a person gave by hand stays as it is. One from groups follows them at each sign-in: what the groups no
longer give is taken, with the tokens held in that team, and who has no role left is signed out everywhere.
"""

import logging

from django.db import transaction

from dashboard.database import clock
from dashboard.models import Actor, Membership, Team
from dashboard.net.oidc_settings import Rule
from dashboard.people import members, sessions
from dashboard.people.access import ROLES

logger = logging.getLogger("handrail.sso")
EVERYBODY = "*"
MAX_GROUPS = 2000


class GroupsNotTold(Exception):
    """The provider has more groups of the person than it puts into a token, so that roles can't be known."""


def groups_in(claims: dict, claim: str) -> list[str]:
    """Return the groups that the claim names: a list or one name, also within an object (`realm_access.roles`).

    None there means no groups. Raise GroupsNotTold if the provider says that it left them out.
    """
    left_out = claims.get("_claim_names")
    if claim not in claims and isinstance(left_out, dict) and claim in left_out:
        raise GroupsNotTold
    found = claims.get(claim)
    if found is None:
        found = claims
        for part in claim.split("."):
            found = found.get(part) if isinstance(found, dict) else None
    names = [found] if isinstance(found, str) else found
    if not isinstance(names, list):
        return []
    return sorted({name for name in names if isinstance(name, str)})[:MAX_GROUPS]


def roles_of(groups: list[str], rules: list[Rule]) -> dict[Team, tuple[str, list[str]]]:
    """Return {team: (the highest role, the groups that give it)}. Teams that don't exist are logged and left out."""
    given: dict[str, dict[str, list[str]]] = {}
    for rule in rules:
        if rule.group == EVERYBODY or rule.group in groups:
            given.setdefault(rule.team, {}).setdefault(rule.role, []).append(rule.group)
    teams = {team.slug: team for team in Team.objects.filter(slug__in=given)}
    for slug in sorted(set(given) - set(teams)):
        logger.warning("a rule for groups names a team that does not exist: %s", slug)
    highest = {slug: max(roles, key=ROLES.index) for slug, roles in given.items()}
    return {team: (highest[slug], sorted(given[slug][highest[slug]])) for slug, team in teams.items()}


@transaction.atomic
def follow(user, wanted: dict[Team, tuple[str, list[str]]], *, by: Actor) -> list[str]:
    """Give the person exactly the `wanted` roles besides those given by hand; return the keys of ended sessions."""
    Team.objects.take_turn(*(team.pk for team in wanted), *user.memberships.values_list("team", flat=True))
    held = {one.team: one for one in user.memberships.select_related("team", "user").locked()}
    for team, one in held.items():
        if one.confirmed_at and team not in wanted:
            members.remove(one, by=by, groups=[])
    for team, (role, groups) in wanted.items():
        one = held.get(team)
        if one is None:
            members.add(team, user, role, by=by, groups=groups)
        elif one.confirmed_at and one.role != role:
            members.change_role(one, role, by=by, groups=groups)
        elif one.confirmed_at:
            Membership.objects.filter(pk=one.pk).update(confirmed_at=clock.now())
    left = user.is_superuser or user.memberships.exists()
    return [] if left else sessions.end_all(user, by=by)
