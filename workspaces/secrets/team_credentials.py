"""The credential that a team keeps for a repository's host: a secret for exactly its scheme, host and port."""

import ipaddress
import re

from dashboard.models import Team
from dashboard.problems import invalid
from workspaces import code_hosts, secrets
from workspaces.models import Scope, Secret
from workspaces.provisioning.git import credentials
from workspaces.provisioning.git.addresses import Git, is_lent
from workspaces.provisioning.git.credentials import NONE, Credential


def credential_of(team: Team, source: Git) -> Credential:
    """Return the team's credential for the source, or what a lead can set. Only the runner calls this.

    Problem 422 for an ssh host for which neither the team nor Handrail has a key.
    """
    origin = origin_of(source)
    if not origin:
        return NONE
    secret = secret_for(team.pk, origin)
    if secret is None:
        refuse_without_key(team, source)
        return Credential(proposed_name(origin), origin=origin)
    if why := _why_withheld(secret, source):
        if source.scheme == "ssh" and not is_lent(source):
            raise invalid(f"Handrail has no ssh key for {credentials.place_of(source)}. {why}")
        return Credential(secret.name, origin=origin, withheld=why)
    value = secrets.for_code_host(team, secret.name)
    kept = {"ssh_key": value, "host_key": secret.host_key} if source.scheme == "ssh" else {"token": value}
    return Credential(secret.name, origin=origin, **kept)


def refuse_without_key(team: Team, source: Git):
    """Problem 422 for an ssh host for which neither the team nor Handrail has a key; it names the secret to set."""
    if source.scheme != "ssh" or is_lent(source):
        return
    origin = origin_of(source)
    if secret_for(team.pk, origin) is None:
        wanted = Credential(proposed_name(origin), origin=origin)
        words = f"Handrail has no ssh key for {credentials.place_of(source)}. {credentials.advice(wanted)}"
        raise invalid(f"{words} An admin can name the host in HANDRAIL_GIT_HOSTS.", secret=wanted.secret)


def origin_of(source: Git) -> str:
    """Return the source's scheme, host and port as `Secret.origin` writes them; "" where no secret can be for it."""
    if source.scheme not in ("http", "https", "ssh"):
        return ""
    return code_hosts.origin_of(f"{source.scheme}://{source.host}:{source.port}")


def proposed_name(origin: str) -> str:
    """Return the name that is proposed for the secret of an origin. Several may share it: the origin decides."""
    scheme, _, host = origin.partition("://")
    return f"{'SSH_KEY' if scheme == 'ssh' else 'CODE_HOST'}_" + re.sub(r"[^A-Z0-9]", "_", host.upper())[:70]


def secret_for(team_id, origin: str) -> Secret | None:
    """Return the secret that is for exactly this origin, None if there is none; of several one that has not expired.

    A token that states no origin is used where its name can only mean this host.
    """
    rows = Secret.objects.filter(team=team_id, scope=Scope.CODE_HOST)
    if stated := list(rows.filter(origin=origin).order_by("name")):
        return next((each for each in stated if not secrets.has_expired(each)), stated[0])
    if origin.startswith("ssh:"):
        return None
    repository = code_hosts.repository_of(f"{origin}/owner/name")
    is_enough = repository is not None and code_hosts.is_named_alone(repository)
    return rows.filter(origin="", name=proposed_name(origin)).first() if is_enough else None


def _why_withheld(secret: Secret, source: Git) -> str:
    """Return why the secret is not used for the source, as a sentence; "" if it is used."""
    state = secrets.state(secret)
    if state == secrets.EXPIRED:
        return f"The secret {secret.name} has expired."
    if state == secrets.UNREADABLE:
        return f"The secret {secret.name} can't be decrypted with this host's keys. A lead can set it again."
    if source.scheme == "http" and not all(ipaddress.ip_address(each).is_loopback for each in source.pinned):
        return f"{source.host} is reached without TLS, so the token in {secret.name} is not sent there."
    return ""
