"""Groups of a team's people over HTTP, of which a policy can ask for an approval: list, make, change, remove."""

from typing import Annotated
from uuid import UUID

from ninja import Router, Schema, Status
from pydantic import Field

from approvals.evaluation import approver_groups
from approvals.models import ApproverGroup
from dashboard.models import Team
from dashboard.problems import not_allowed
from dashboard.web import lookup
from dashboard.web.api_base import PROBLEMS
from workspaces.api.schemas import Strict

router = Router(tags=["approver groups"])
Names = Annotated[list[Annotated[str, Field(max_length=150)]], Field(max_length=500)]


class GroupOut(Schema):
    id: UUID
    name: str
    people: list[str]


class GroupsOut(Schema):
    groups: list[GroupOut]


class People(Strict):
    people: Names = Field(description="user names of people who may approve in the team; at least one")


class NewGroup(People):
    name: Annotated[str, Field(max_length=40)]


@router.get("/approver-groups", response={200: GroupsOut} | PROBLEMS)
def list_groups(request):
    """List the groups of the team, by name. For people."""
    return {"groups": [_out(each) for each in approver_groups.of_team(_team(request))]}


@router.post("/approver-groups", response={201: GroupOut} | PROBLEMS)
def make_group(request, body: NewGroup):
    """Make a group; for an admin."""
    made = approver_groups.make(_team(request), body.name, body.people, caller=request.auth)
    return Status(201, _out(made))


@router.put("/approver-groups/{approver_group_id}", response={200: GroupOut} | PROBLEMS)
def change_group(request, approver_group_id: UUID, body: People):
    """Set who is in a group, at once also for calls that wait; for an admin."""
    return _out(approver_groups.change(_find(request, approver_group_id), body.people, caller=request.auth))


@router.delete("/approver-groups/{approver_group_id}", response={204: None} | PROBLEMS)
def remove_group(request, approver_group_id: UUID):
    """Remove a group that no policy names; for an admin."""
    approver_groups.remove(_find(request, approver_group_id), caller=request.auth)
    return Status(204, None)


def _team(request) -> Team:
    if not request.auth.is_person:
        raise not_allowed("Only people see the groups of a team.")
    return Team.objects.get(pk=request.auth.team_ids[0])


def _find(request, approver_group_id: UUID) -> ApproverGroup:
    team = _team(request)
    if not request.auth.can("manage_people", team):
        raise not_allowed("Only an admin can change the groups of a team.")
    return lookup.find(ApproverGroup.objects.filter(team=team).select_related("team"), approver_group_id, "group")


def _out(group: ApproverGroup) -> dict:
    return {
        "id": group.pk,
        "name": group.name,
        "people": sorted(person.get_username() for person in group.people.all()),
    }
