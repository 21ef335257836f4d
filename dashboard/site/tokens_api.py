"""Tokens over HTTP, for an admin's own tools: list, make, revoke."""

from datetime import datetime
from typing import Literal
from uuid import UUID

from django.core.exceptions import ValidationError
from ninja import Router, Schema, Status
from pydantic import Field

from dashboard.models import Team, Token
from dashboard.people import token_list, tokens
from dashboard.people.provisioning import agent_of, token_for
from dashboard.problems import invalid, not_allowed
from dashboard.web.api_base import PROBLEMS
from dashboard.web.lookup import find, page_of

router = Router(tags=["tokens"])
Kind = Literal["", "agent", "person", "run"]
State = Literal["", "live", "unused", "never", "soon", "expired", "revoked"]


class TokenOut(Schema):
    id: UUID
    prefix: str
    of: str = Field(description="name of the agent or person")
    type: str = Field(description="agent or person")
    workspace: str | None = Field(description="key of the only workspace that it reaches")
    state: str = Field(description="live, unused, expired or revoked")
    created_at: datetime
    expires_at: datetime | None
    last_used_at: datetime | None
    revoked_at: datetime | None


class Tokens(Schema):
    tokens: list[TokenOut]
    cursor: str | None


class TokenIn(Schema):
    agent: str = Field(description="name of the agent, made if there is none", max_length=80)
    days: int = Field(token_list.DEFAULT_DAYS, ge=0, le=token_list.MAX_DAYS, description="0: until it is revoked")


class NewToken(Schema):
    token: str = Field(description="shown only here")
    expires_at: datetime | None


class Revoked(Schema):
    revoked: int


def _team(request, verb: str) -> Team:
    """Return the team of the token that asks. Problem 403 if it may not do the verb."""
    team = Team.objects.get(pk=request.auth.team_ids[0])
    if not request.auth.can(verb, team):
        raise not_allowed("This token may not do that.")
    return team


@router.get("/tokens", response={200: Tokens} | PROBLEMS)
def list_tokens(request, state: State = "", kind: Kind = "", cursor: str = ""):
    """Return the team's tokens, newest first; for an admin."""
    rows = token_list.of_teams([_team(request, "manage_tokens").pk])
    rows = token_list.in_state(rows, state) if state else rows
    page = page_of(token_list.of_kind(rows, kind) if kind else rows, cursor)
    return Status(200, {"tokens": [_shown(token) for token in page.rows], "cursor": page.cursor})


@router.post("/tokens", response={201: NewToken} | PROBLEMS)
def make_token(request, body: TokenIn):
    """Make a token of an agent; for a lead or admin."""
    team = _team(request, "manage_agents")
    expires_at = token_list.expiry_in(body.days)
    try:
        agent = agent_of(team, body.agent)
    except ValidationError as error:
        raise invalid(error.messages[0]) from None
    plain = token_for(team, by=request.auth.actor, agent=agent, expires_at=expires_at)
    return Status(201, {"token": plain, "expires_at": expires_at})


@router.post("/tokens/revoke-unused", response={200: Revoked} | PROBLEMS)
def revoke_unused(request):
    """Revoke the team's tokens that nobody used for 90 days; for an admin."""
    team = _team(request, "manage_tokens")
    return Status(200, {"revoked": token_list.revoke_unused(team, by=request.auth.actor)})


@router.post("/tokens/{token_id}/revoke", response={200: TokenOut} | PROBLEMS)
def revoke_token(request, token_id: UUID):
    """Revoke a token for good; for an admin."""
    team = _team(request, "manage_tokens")
    found = find(token_list.of_teams([team.pk]), token_id, "token")
    tokens.revoke(found, by=request.auth.actor)
    found.refresh_from_db(fields=["revoked_at"])
    return Status(200, _shown(found))


def _shown(token: Token) -> dict:
    return {
        "id": token.pk,
        "prefix": token.prefix,
        "of": token.agent.name if token.agent else token.user.get_username(),
        "type": "agent" if token.agent else "person",
        "workspace": token.workspace.key if token.workspace else None,
        "state": token_list.state_of(token),
        "created_at": token.created_at,
        "expires_at": token.expires_at,
        "last_used_at": token.last_used_at,
        "revoked_at": token.revoked_at,
    }
