"""Secrets of a team as lists show them: without values, with the environments and workspaces that have them."""

from collections import defaultdict

from dashboard.models import Team
from dashboard.problems import conflict, not_found
from workspaces import secrets
from workspaces.models import HandedSecret, Scope, Secret
from workspaces.provisioning import git_identity
from workspaces.provisioning.git import ssh_keys
from workspaces.secrets import origins
from workspaces.services import environments, secret_expiry


def find(team: Team, name: str, scope: str = "") -> Secret:
    """Return the secret. Problem 404 without one; 409 if there are several phases and none is named."""
    rows = Secret.objects.filter(team=team, name=name)
    found = list(rows.filter(scope=scope) if scope else rows)
    if not found:
        raise not_found("secret")
    if len(found) > 1:
        raise conflict(f"{name} is set for several: name one of {', '.join(sorted(one.scope for one in found))}.")
    return found[0]


def of_team(team: Team) -> list[dict]:
    """Return all secrets of the team by name, in the shape of `_as_dicts`."""
    return _as_dicts(team, Secret.objects.filter(team=team))


def of_one(secret: Secret) -> dict:
    return _as_dicts(secret.team, Secret.objects.filter(pk=secret.pk))[0]


def _as_dicts(team: Team, rows) -> list[dict]:
    named, given = _environments(team), _workspaces(team)
    return [
        {
            "name": secret.name,
            "scope": secret.scope,
            "origin": secret.origin,
            "kind": origins.kind_of(secret),
            "code_host": secret.code_host,
            "host_key": secret.host_key,
            "public_key": secret.public_key,
            "fingerprint": ssh_keys.fingerprint(secret.public_key) if secret.public_key else "",
            "allowed_signers": allowed_signers(secret),
            "state": secrets.state(secret),
            "version": secret.version,
            "expires_at": secret.expires_at,
            "expires_soon": secret_expiry.is_near(secret),
            "last_used_at": secret.last_used_at,
            "set_at": secret.set_at,
            "set_by": secret.set_by.get("label", ""),
            "environments": named[secret.scope, secret.name],
            "workspaces": given[secret.scope, secret.name],
        }
        for secret in rows.order_by("name", "scope")
    ]


def allowed_signers(secret: Secret) -> str:
    """Return the line by which git and others verify what is signed with the key; "" for other secrets."""
    return git_identity.allowed_signers(secret.public_key) if secret.scope == Scope.SIGNING else ""


def _environments(team: Team) -> dict[tuple[str, str], list[str]]:
    """Return {(scope, name): names of the environments whose newest version gives it to programs}."""
    found = defaultdict(list)
    for environment in environments.newest([team.pk]).order_by("name"):
        for phase, scope in secrets.SCOPES.items():
            for name in environment.secrets.get(phase, []):
                found[scope.value, name].append(environment.name)
    return found


def _workspaces(team: Team) -> dict[tuple[str, str], list[str]]:
    """Return {(scope, name): keys of the workspaces whose programs were given some version of it}."""
    found = defaultdict(list)
    rows = HandedSecret.objects.filter(workspace__team=team, workspace__purged_at=None)
    columns = ("scope", "name", "workspace__key")
    for scope, name, key in rows.values_list(*columns).distinct().order_by("workspace__key"):
        found[scope, name].append(key)
    return found
