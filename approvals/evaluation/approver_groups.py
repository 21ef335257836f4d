"""Named groups of a team's people, of which a policy can ask for an approval: made, changed and removed by admins."""

import tomllib

from django.contrib.auth import get_user_model
from django.db import transaction

from approvals.models import ApproverGroup, Policy
from approvals.policy.people import GROUP, read_approvals
from dashboard.models import Event, Team
from dashboard.people import sole_approver
from dashboard.problems import conflict, invalid, not_allowed

MAX_GROUPS = 50


def of_team(team):
    """Return the groups of a team, by name."""
    return ApproverGroup.objects.filter(team=team).prefetch_related("people").order_by("name")


def usable(team) -> set[str]:
    """Return the names of the groups in which somebody may approve."""
    people = sole_approver.approvers(team).values("user")
    return set(ApproverGroup.objects.filter(team=team, people__in=people).values_list("name", flat=True))


def make(team, name: str, people: list[str], *, caller) -> ApproverGroup:
    """Make a group of people of the team, by their user names. Problem 403; 409 if there is one; 422."""
    _require_admin(team, caller)
    if not GROUP.fullmatch(name):
        raise invalid("A group's name begins with a letter, and has at most 40 letters, digits, - and _.")
    members = _members(team, people)
    with Team.objects.turn(team.pk):
        if ApproverGroup.objects.filter(team=team, name=name).exists():
            raise conflict(f"There is a group {name} already.")
        if ApproverGroup.objects.filter(team=team).count() >= MAX_GROUPS:
            raise conflict(f"A team can have at most {MAX_GROUPS} groups.")
        made = ApproverGroup.objects.create(team=team, name=name)
        made.people.set(members)
        _record(made, "approver_group.made", people, caller)
    return made


def change(group: ApproverGroup, people: list[str], *, caller) -> ApproverGroup:
    """Set who is in the group. It counts at once, also for calls that wait. Problem 403, 422."""
    _require_admin(group.team, caller)
    members = _members(group.team, people)
    with Team.objects.turn(group.team_id):
        group.people.set(members)
        _record(group, "approver_group.changed", people, caller)
    return group


@transaction.atomic
def remove(group: ApproverGroup, *, caller):
    """Remove a group. Problem 403; 409 while a policy in force names it."""
    _require_admin(group.team, caller)
    Team.objects.take_turn(group.team_id)
    for policy in Policy.objects.filter(team=group.team_id, active=True):
        if group.name in named_by(policy):
            where = policy.environment.name if policy.environment else group.team.name
            raise conflict(f"The policy of {where} asks for an approval of {group.name}. Change it first.")
    _record(group, "approver_group.removed", [], caller)
    group.delete()


def named_by(policy: Policy) -> set[str]:
    """Return the groups that a saved policy names."""
    table = tomllib.loads(policy.text).get("approvals", {})
    return {name for takes in read_approvals(table).values() for name in takes.groups}


def _require_admin(team, caller):
    if not caller.is_person or not caller.can("manage_people", team):
        raise not_allowed("Only an admin can change the groups of a team.")


def _members(team, names: list[str]) -> list:
    able = sole_approver.approvers(team).values("user")
    found = list(get_user_model().objects.filter(pk__in=able, username__in=names))
    known = {user.get_username() for user in found}
    if unknown := [name for name in names if name not in known]:
        raise invalid(f"{unknown[0][:150]} may not approve in {team}.")
    if not found:
        raise invalid("A group needs somebody who may approve.")
    return found


def _record(group: ApproverGroup, verb: str, people: list[str], caller):
    data = {"name": group.name, "people": sorted(people)}
    Event.objects.record(group.team, actor=caller.actor, verb=verb, subject=group, data=data)
