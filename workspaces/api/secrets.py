"""Secrets of the caller's team: list, set, delete. No answer has a value."""

from datetime import datetime
from typing import Literal
from uuid import UUID

from django.db import transaction
from ninja import Router, Schema, Status
from pydantic import AwareDatetime, Field

from dashboard.models import Team
from dashboard.problems import invalid, not_allowed
from dashboard.web.api_base import PROBLEMS
from workspaces import models, secrets
from workspaces.api import schemas
from workspaces.api.lookup import team_of
from workspaces.secrets import origins
from workspaces.services import secret_uses

router = Router(tags=["secrets"])
Scope = Literal[*models.Scope.values]


class SecretIn(schemas.Strict):
    """A secret's value, until when it is given to programs, and where a credential for repositories is used."""

    scope: Scope = Field(
        "agent", description="setup: the setup script; agent: all other programs; host, models, signing: Handrail"
    )
    origin: str = Field(
        "",
        max_length=300,
        description="host: the only scheme, host and port that it is used at: http(s) for a token, ssh for a key; "
        "empty: kept",
    )
    host_key: str = Field(
        "",
        max_length=20_000,
        description="host, with an ssh origin: the key that the host must show, as in known_hosts; empty: kept",
    )
    code_host: Literal["", *models.CodeHostKind.values] | None = Field(
        None, description="host, a token: which API its host has; empty: the host is asked; null: kept"
    )
    value: str | None = Field(None, max_length=secrets.VALUE_BYTES, description="null: keep the value that is set")
    expires_at: AwareDatetime | None = Field(None, description="null: never")


class SecretOut(Schema):
    name: str
    scope: str
    origin: str = Field(description="where a credential for repositories is used; empty for other secrets")
    kind: Literal["token", "ssh_key", ""] = Field(description="of a credential for repositories; empty for others")
    code_host: str = Field(description="which API the host of a token has, where that was stated")
    host_key: str = Field(description="of an ssh key: what its host must show, one key on each line")
    public_key: str = Field(description="of an ssh key or a signing key, such as ssh-ed25519 AAAA…")
    fingerprint: str = Field(description="that of public_key")
    allowed_signers: str = Field(description="of a signing key: the line of an allowed_signers file for its signatures")
    state: str = Field(description="set, expired or unreadable (no key of this host decrypts it)")
    version: UUID = Field(description="changes with the value")
    expires_at: datetime | None
    expires_soon: bool = Field(description="within a week, or expired")
    last_used_at: datetime | None = Field(description="when it was last given to a program")
    set_at: datetime | None
    set_by: str
    environments: list[str] = Field(description="those that give it to programs")
    workspaces: list[str] = Field(description="keys of those whose programs were given some version of it")


class Secrets(Schema):
    secrets: list[SecretOut]


def _team(request) -> Team:
    """Return the team of the token. Problem 403 if it may not manage secrets."""
    team = team_of(request)
    if not request.auth.can("manage_secrets", team):
        raise not_allowed("You don't have permission to do this.")
    return team


@router.get("/secrets", response={200: Secrets} | PROBLEMS)
def list_secrets(request):
    """Return the team's secrets by name, without values; for leads and admins."""
    return Status(200, {"secrets": secret_uses.of_team(_team(request))})


@router.get("/secrets/{name}", response={200: SecretOut} | PROBLEMS)
def show_secret(request, name: str, scope: Scope | Literal[""] = ""):
    """Return one secret, without its value. `scope` is needed where several have the name."""
    return Status(200, secret_uses.of_one(secret_uses.find(_team(request), name, scope)))


@router.put("/secrets/{name}", response={200: SecretOut} | PROBLEMS)
def set_secret(request, name: str, wish: SecretIn):
    """Set a secret, or replace its value and expiry; without a value, change the expiry and host key alone."""
    team, by = _team(request), request.auth.actor
    stored = models.Secret.objects.filter(team=team, name=name, scope=wish.scope).first()
    origin = wish.origin or (stored.origin if stored else "")
    origins.check_code_host(wish.scope, origin, wish.code_host or "")
    if wish.value is None:
        if wish.origin:
            raise invalid("Set the token or key again with its new origin.", field="value")
        found = secret_uses.find(team, name, wish.scope)
        with transaction.atomic():  # all of it or nothing
            if wish.host_key:
                secrets.change_host_key(found, wish.host_key, by=by)
            if wish.code_host is not None:
                secrets.state_code_host(found, wish.code_host, by=by)
            secrets.change_expiry(found, wish.expires_at, by=by)
    else:
        how = {"origin": wish.origin, "host_key": wish.host_key, "expires_at": wish.expires_at}
        found = secrets.save(team, name, wish.scope, wish.value, **how, by=by, replace=True)
        if wish.code_host is not None:
            secrets.state_code_host(found, wish.code_host, by=by)
    return Status(200, secret_uses.of_one(secret_uses.find(team, name, wish.scope)))


@router.delete("/secrets/{name}", response={204: None} | PROBLEMS)
def delete_secret(request, name: str, scope: Scope | Literal[""] = ""):
    """Delete a secret: new programs no longer get it. Files are still searched for values that programs had."""
    secrets.delete(secret_uses.find(_team(request), name, scope), by=request.auth.actor)
    return Status(204, None)
