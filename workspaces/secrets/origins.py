"""Where a secret for repositories is used: one origin, by a token for http(s) or a deploy key for ssh; signing keys."""

from django.conf import settings

from dashboard.problems import conflict, invalid
from workspaces import code_hosts
from workspaces.models import Scope, Secret
from workspaces.provisioning.git import signing, ssh_keys

TOKEN, SSH_KEY = "token", "ssh_key"


def check(scope: str, origin: str) -> str:
    """Return an origin in its one form. Problem 422 for one that no credential is for."""
    if not origin:
        return ""
    if scope != Scope.CODE_HOST:
        raise invalid("Only a secret for repositories has an origin.", field="origin")
    found = code_hosts.origin_of(origin)
    if not found:
        words = "Give the host's address alone, such as https://git.example.org:8443 or ssh://git.example.org."
        raise invalid(words, field="origin")
    if found.startswith("http://") and not settings.HANDRAIL_PRIVATE_SOURCES:
        raise invalid("A token is sent over https only.", field="origin")
    return found


def is_ssh(origin: str) -> bool:
    return origin.startswith("ssh://")


def kind_of(secret: Secret) -> str:
    """Return what a secret for repositories is; "" for any other secret."""
    if secret.scope != Scope.CODE_HOST:
        return ""
    return SSH_KEY if is_ssh(secret.origin) else TOKEN


def fit(secret: Secret, value: str, host_key: str) -> str:
    """Set the public columns of a secret, whose origin is set, and return its value as it is kept. Problem 422."""
    if not is_ssh(secret.origin):
        if host_key:
            raise invalid("Only an ssh key has a host key: give an origin such as ssh://a.example.", field="host_key")
        if secret.scope == Scope.SIGNING:
            return _fit_to_sign(secret, value)
        if secret.scope != Scope.CODE_HOST:
            return value
        if ssh_keys.looks_private(value):
            raise invalid("This is a private key: give it an origin such as ssh://git.example.org.", field="origin")
        if not value.strip():
            raise invalid("The value is empty.", field="value")
        return value.strip()
    try:
        secret.public_key = ssh_keys.public_part(value)
    except ssh_keys.BadKey as error:
        raise invalid(str(error), field="value") from None
    secret.host_key = pinned(host_key)
    return f"{value.strip()}\n"


def _fit_to_sign(secret: Secret, value: str) -> str:
    """Set the public part of a signing key, and return it as it is kept. Problem 409, 422."""
    if (other := signing_key_of(secret.team_id)) and other.name != secret.name:
        raise conflict(f"The team signs with {other.name}. Delete it first, or replace its value.")
    try:
        secret.public_key = signing.public_of(signing.key_of(value))
    except ValueError as error:
        raise invalid(str(error), field="value") from None
    return f"{value.strip()}\n"


def signing_key_of(team) -> Secret | None:
    return Secret.objects.filter(team=team, scope=Scope.SIGNING).order_by("name").first()


def pinned(text: str) -> str:
    """Return a host's keys as they are kept. Problem 422 for a text without one."""
    try:
        return ssh_keys.host_keys(text)
    except ssh_keys.BadKey as error:
        raise invalid(str(error), field="host_key") from None


def public_facts(secret: Secret) -> dict:
    """Return what everybody who sees the secret may know of its kind: {} for one that is not for repositories."""
    if secret.scope != Scope.CODE_HOST:
        return {}
    found = {"origin": secret.origin} if secret.origin else {}
    if secret.public_key:
        found["fingerprint"] = ssh_keys.fingerprint(secret.public_key)
        found["host_keys"] = [ssh_keys.fingerprint(line) for line in secret.host_key.splitlines()]
    return found


def check_code_host(scope: str, origin: str, code_host: str):
    """Problem 422 for an API that is stated for another secret than a token for a code host."""
    if code_host and (scope != Scope.CODE_HOST or is_ssh(origin)):
        raise invalid("Only a token for a code host says which API the host has.", field="code_host")
