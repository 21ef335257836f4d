"""Credentials with a leash: list, set, delete. No answer has a value."""

from datetime import datetime

from ninja import Router, Schema, Status
from pydantic import Field

from dashboard.models import Team
from dashboard.problems import not_allowed
from dashboard.web.api_base import PROBLEMS
from workspaces.api import schemas
from workspaces.api.lookup import team_of
from workspaces.models import Credential
from workspaces.secrets import credentials

router = Router(tags=["credentials"])


class HostIn(schemas.Strict):
    host: str = Field(max_length=300, description="api.github.com, with :port for another than 443")
    paths: list[str] = Field(["/*"], max_length=50, description="/repos/acme/* is all below; * inside is one segment")
    methods: list[str] = Field(["GET"], max_length=20, description="GET brings HEAD; * is any")


class CredentialIn(schemas.Strict):
    """A credential, and its leash: a use beyond it is asked for."""

    value: str | None = Field(None, max_length=4096, description="null: keep the one that is set")
    hosts: list[HostIn] = Field(max_length=20)
    header: str = Field("Authorization: Bearer {}", max_length=200, description="the header in which it is put in")
    variable: str = Field(max_length=80, description="the variable in which programs find the stand-in")
    environments: list[str] = Field(max_length=50, description="names; programs of their workspaces have the stand-in")


class CredentialOut(Schema):
    name: str
    hosts: list[HostIn]
    header: str
    variable: str
    environments: list[str]
    set_at: datetime
    set_by: str
    last_used_at: datetime | None


class Credentials(Schema):
    credentials: list[CredentialOut]


def _team(request) -> Team:
    team = team_of(request)
    if not request.auth.can("manage_secrets", team):
        raise not_allowed("You don't have permission to do this.")
    return team


def _out(row: Credential) -> dict:
    names = ("name", "hosts", "header", "variable", "environments", "set_at", "last_used_at")
    return {name: getattr(row, name) for name in names} | {"set_by": row.set_by.get("label", "")}


@router.get("/credentials", response={200: Credentials} | PROBLEMS)
def list_credentials(request):
    """Return the team's credentials by name, without values; for leads and admins."""
    rows = Credential.objects.filter(team=_team(request)).order_by("name")
    return Status(200, {"credentials": [_out(row) for row in rows]})


@router.put("/credentials/{name}", response={200: CredentialOut} | PROBLEMS)
def set_credential(request, name: str, wish: CredentialIn):
    """Set a credential or replace all of it. Workspaces that have none yet use it from their next start on."""
    return Status(200, _out(credentials.save(_team(request), name, wish.model_dump(), by=request.auth.actor)))


@router.delete("/credentials/{name}", response={204: None} | PROBLEMS)
def delete_credential(request, name: str):
    """Delete a credential: within a second it is put into no request any more."""
    credentials.delete(credentials.find(_team(request), name), by=request.auth.actor)
    return Status(204, None)
