"""The policy in force for a team or an environment, and its next version.

A new version counts at once, also for what was answered before and not yet used: what it forbids, or wants more people
for than have said yes, is revoked when it is collected; what a person approved otherwise stays approved
(approvals.gate). What only the old version allowed is asked anew.
"""

import hashlib
from functools import lru_cache

from django.db import IntegrityError, transaction

from approvals.models import Policy
from approvals.policy import PolicyError, default_policy, load_policy
from dashboard.models import Actor, Event, Team
from dashboard.problems import invalid, not_allowed

MODE = "irreversible"  # what a new team starts with


def active(team_id, environment=None) -> Policy:
    """The policy in force: the environment's own (of any of its versions), else the team's, made when it has none."""
    return _in_force(team_id, environment) or _first(team_id)


def shown(team_id) -> Policy:
    """The team's policy for who only looks: a team that has none yet sees the one it will start with, as version 0."""
    text = default_policy(MODE)
    return _in_force(team_id) or Policy(team_id=team_id, number=0, text=text, sha256=_sha256(text), active=True)


def _in_force(team_id, environment=None) -> Policy | None:
    in_force = Policy.objects.filter(team=team_id, active=True)
    if environment is not None:
        of_name = in_force.filter(environment__name=environment.name).order_by("-environment__version")
        if own := of_name.first():
            return own
    return in_force.filter(environment=None).first()


def compiled(policy: Policy):
    """The rules of a stored version, ready to judge by. PolicyError when it no longer loads."""
    return _load(policy.sha256, policy.text)


@lru_cache(maxsize=64)
def _load(sha256: str, text: str):
    return load_policy(text)


def save(text: str, *, caller, team, environment=None) -> Policy:
    """Make this text the next version, in force at once. Problem 422 when it makes no sense or its tests fail."""
    if not caller.can("write_policy", team):
        raise not_allowed("A lead writes the policy.")
    try:
        load_policy(text)
    except PolicyError as error:
        raise invalid(str(error)) from None
    return add(team.pk, text, environment=environment, actor=caller.actor, user=caller.user)


def _first(team_id) -> Policy:
    try:
        return add(team_id, default_policy(MODE), actor=Actor.system("Handrail"), only_when_none=True)
    except IntegrityError:  # made meanwhile
        return Policy.objects.get(team=team_id, environment=None, active=True)


def add(team_id, text, *, actor, environment=None, user=None, only_when_none=False) -> Policy:
    with transaction.atomic():
        team = Team.objects.select_for_update().get(pk=team_id)
        versions = Policy.objects.filter(team=team, environment=environment)
        if only_when_none and (known := versions.filter(active=True).first()):
            return known
        latest = versions.order_by("-number").values_list("number", flat=True).first() or 0
        versions.filter(active=True).update(active=False)
        policy = Policy.objects.create(
            team=team,
            environment=environment,
            number=latest + 1,
            text=text,
            sha256=_sha256(text),
            by=user,
            active=True,
        )
        data = {"number": policy.number, "sha256": policy.sha256, "environment": environment and environment.name}
        Event.objects.record(team, actor=actor, verb="policy.saved", subject=policy, data=data)
    return policy


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
