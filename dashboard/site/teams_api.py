"""Teams and their members over HTTP; what the pages refuse is refused here too."""

from datetime import datetime
from typing import Annotated, Literal
from uuid import UUID

from django.core.exceptions import ValidationError
from django.db import transaction
from ninja import Path, Router, Schema, Status
from pydantic import Field

from approvals.actions import emergency_stop
from dashboard.models import Membership, Team
from dashboard.people import members, owner_approval, teams
from dashboard.problems import invalid, not_allowed, not_found
from dashboard.site import invitations
from dashboard.web.api_base import PROBLEMS
from workspaces.services.scrub import people
from workspaces.services.scrub.asking import MAX_REASON

router = Router(tags=["teams"])
NAME = r"^[\w.@+-]+$"
Slug = Annotated[str, Path(pattern=r"^[-\w]+$", max_length=64)]
UserName = Annotated[str, Path(pattern=NAME, max_length=150)]
RoleName = Literal["viewer", "reviewer", "lead", "admin"]


class TeamOut(Schema):
    slug: str
    name: str
    role: str = Field(description="of the caller")
    members: int
    stopped_at: datetime | None
    archived_at: datetime | None
    owner_may_approve: bool = Field(description="the owner of an agent may approve what it asks")


class Teams(Schema):
    teams: list[TeamOut]


class TeamIn(Schema):
    name: str = Field(max_length=120)
    slug: str = Field(max_length=64)


class TeamChange(Schema):
    name: str | None = Field(None, max_length=120)
    owner_may_approve: bool | None = Field(
        None, description="the owner of an agent may approve what it asks; false takes two people who may decide"
    )


class MemberOut(Schema):
    name: str = Field(description="user name")
    full_name: str
    role: str
    from_groups: bool = Field(description="the role comes from groups of the identity provider")
    active: bool
    last_login: datetime | None


class Members(Schema):
    members: list[MemberOut]


class MemberIn(Schema):
    name: str = Field(
        pattern=NAME, max_length=150, description="user name or e-mail address; a new person gets an account"
    )
    role: RoleName


class RoleIn(Schema):
    role: RoleName


class Invited(Schema):
    link: str | None = Field(description="signs a new person in once; shown only here. None for who has an account")
    expires_at: datetime | None


@router.get("/teams", response={200: Teams} | PROBLEMS)
def list_teams(request):
    """Return the teams of the caller; a token is of one team."""
    _person_only(request)
    found = Team.objects.visible_to(request.auth).order_by("slug")
    return Status(200, {"teams": [_shown(request, team) for team in found]})


@router.post("/teams", response={201: TeamOut} | PROBLEMS)
def create_team(request, body: TeamIn):
    """Create a team with the caller as its admin; for superusers. A token for it is made on its own page."""
    if not (request.auth.is_person and request.auth.user.is_superuser):
        raise not_allowed("Only a superuser creates teams.")
    made = teams.create(body.name, body.slug, by=request.auth.user)
    return Status(201, _shown(request, made) | {"role": "admin"})


@router.patch("/teams/{slug}", response={200: TeamOut} | PROBLEMS)
@transaction.atomic
def change_team(request, slug: Slug, body: TeamChange):
    """Change the name, or who approves what a person's own agent asks; for an admin."""
    team = _team(request, slug, "manage_team")
    if body.owner_may_approve is not None:
        owner_approval.change(team, body.owner_may_approve, by=request.auth.actor)
    if body.name is not None:
        teams.rename(team, body.name, by=request.auth.actor)
    return Status(200, _shown(request, Team.objects.get(pk=team.pk)))


@router.post("/teams/{slug}/archive", response={200: TeamOut} | PROBLEMS)
def archive_team(request, slug: Slug):
    """Stop everything in the team and archive it: nothing runs, everything stays readable. For an admin."""
    team = _team(request, slug, "manage_team")
    if team.stopped_at is None and team.archived_at is None:
        emergency_stop.stop_everything(team, caller=request.auth)
    teams.archive(team, by=request.auth.actor)
    return Status(200, _shown(request, Team.objects.get(pk=team.pk)))


@router.post("/teams/{slug}/unarchive", response={200: TeamOut} | PROBLEMS)
def unarchive_team(request, slug: Slug):
    """Take the team out of the archive; it stays stopped until a lead resumes it. For an admin."""
    team = _team(request, slug, "manage_team")
    teams.unarchive(team, by=request.auth.actor)
    return Status(200, _shown(request, Team.objects.get(pk=team.pk)))


@router.get("/teams/{slug}/members", response={200: Members} | PROBLEMS)
def list_members(request, slug: Slug):
    """Return the people in the team by user name."""
    team = _team(request, slug, "read")
    found = team.memberships.select_related("user").order_by("user__username")
    return Status(200, {"members": [_member(one) for one in found]})


@router.post("/teams/{slug}/members", response={201: Invited} | PROBLEMS)
def add_member(request, slug: Slug, body: MemberIn):
    """Add a person to the team; one who is new gets an account and a one-time link. For an admin."""
    team = _team(request, slug, "manage_people")
    try:
        links, _ = invitations.invite(team, body.name, body.role, by=request.auth.actor)
    except ValidationError as error:
        raise invalid(error.messages[0]) from None
    link = links[0] if links else None
    return Status(201, {"link": link and link.address, "expires_at": link and link.until})


@router.patch("/teams/{slug}/members/{person}", response={200: MemberOut} | PROBLEMS)
def change_role(request, slug: Slug, person: UserName, body: RoleIn):
    """Change a member's role; for an admin."""
    one = _membership(request, slug, person)
    members.change_role(one, body.role, by=request.auth.actor)
    return Status(200, _member(Membership.objects.select_related("user").get(pk=one.pk)))


@router.delete("/teams/{slug}/members/{person}", response={204: None} | PROBLEMS)
def remove_member(request, slug: Slug, person: UserName):
    """Remove a person from the team, and revoke the tokens held in it; for an admin."""
    members.remove(_membership(request, slug, person), by=request.auth.actor)
    return Status(204, None)


class PersonPurgeIn(Schema):
    reason: str = Field(min_length=1, max_length=MAX_REASON, description="for the receipt; without the person's name")


class Purged(Schema):
    called: str = Field(description="the new name of the account")
    receipts: list[UUID] = Field(description="one for each team; GET /purges/{id} has those of the caller's team")


@router.post("/teams/{slug}/members/{person}/purge", response={200: Purged} | PROBLEMS)
def purge_member(request, slug: Slug, person: UserName, body: PersonPurgeIn):
    """Purge a person: remove the account's name, addresses, sign-ins, devices, views and drafts, with a receipt.

    For an admin of every team that the person is or was in; a token is of one team.
    """
    one = _membership(request, slug, person, "purge_person")
    people.refuse(one.user, request.auth)
    made = people.purge(one.user, reason=body.reason, by=request.auth.actor)
    return Status(200, {"called": people.name_after(one.user), "receipts": [receipt.pk for receipt in made]})


def _person_only(request):
    if not request.auth.is_person:
        raise not_allowed("Only people see teams and their members.")


def _team(request, slug: str, verb: str) -> Team:
    """Return a team of the caller. Problem 404 for another one, 403 if the caller may not do the verb there."""
    _person_only(request)
    team = Team.objects.visible_to(request.auth).filter(slug=slug).first()
    if team is None:
        raise not_found("team")
    if not request.auth.can(verb, team):
        raise not_allowed("You don't have permission to do this.")
    return team


def _membership(request, slug: str, name: str, verb: str = "manage_people") -> Membership:
    team = _team(request, slug, verb)
    found = team.memberships.select_related("team", "user").filter(user__username=name).first()
    if found is None:
        raise not_found("member")
    return found


def _shown(request, team: Team) -> dict:
    return {
        "slug": team.slug,
        "name": team.name,
        "role": request.auth.roles.get(team.pk, ""),
        "members": team.memberships.count(),
        "stopped_at": team.stopped_at,
        "archived_at": team.archived_at,
        "owner_may_approve": team.owner_may_approve,
    }


def _member(one: Membership) -> dict:
    return {
        "name": one.user.get_username(),
        "full_name": one.user.get_full_name(),
        "role": one.role,
        "from_groups": one.confirmed_at is not None,
        "active": one.user.is_active,
        "last_login": one.user.last_login,
    }
