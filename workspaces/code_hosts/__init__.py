"""Pull requests at code hosts: one contract (base), GitHub, GitLab, and Gitea with Forgejo."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from workspaces.code_hosts.base import (
    Account,
    Opened,
    PullRequest,
    Refused,
    Repository,
    origin_of,
    repository_of,
    same_branch,
)
from workspaces.code_hosts.client import Client, Unreachable
from workspaces.code_hosts.gitea import Forgejo, Gitea
from workspaces.code_hosts.github import GitHub
from workspaces.code_hosts.gitlab import GitLab
from workspaces.code_hosts.host import CodeHost

__all__ = [
    "KINDS",
    "Account",
    "CodeHost",
    "Opened",
    "PullRequest",
    "Refused",
    "Repository",
    "api_of",
    "connected",
    "is_named_alone",
    "kind_of",
    "origin_of",
    "repository_of",
    "same_branch",
]  # fmt: skip

KNOWN = {"github.com": GitHub, "gitlab.com": GitLab, "codeberg.org": Forgejo}
KINDS = {host.kind: host for host in (GitHub, GitLab, Gitea, Forgejo)}
ASKED = (Gitea, GitLab, GitHub)  # in the order in which another host is asked what it is; Forgejo answers as Gitea


@asynccontextmanager
async def connected(account: Account) -> AsyncIterator[CodeHost]:
    """Yield the API of an account's host. Raise Refused if the host has none, or none that the token is shown."""
    async with Client(account.addresses) as client:
        try:
            host = await _host(client, account)
        except Unreachable as error:
            raise Refused(f"{account.repository.site} did not answer: {error}.", 0) from None
        yield host


def kind_of(repository: Repository) -> str:
    """Return which API a well-known host has; "" for another one, which is asked."""
    return getattr(KNOWN.get(repository.host), "kind", "")


def is_named_alone(repository: Repository) -> bool:
    """Return whether the name of a secret is enough to say that it is for this host.

    In a name `_` stands for a dot, a dash or a colon: only a well-known host, one without any of them and this machine
    share their name with no host that somebody could mean instead.
    """
    host = repository.host
    if re.fullmatch(r"127\.\d+\.\d+\.\d+", host):
        return True
    return repository.base == f"https://{host}" and (host in KNOWN or host.isalnum())


def api_of(repository: Repository) -> str:
    """Return the address of the host's API that is contacted, as far as its name and port go."""
    return "https://api.github.com" if repository.host == "github.com" else repository.base


async def _host(client: Client, account: Account) -> CodeHost:
    repository = account.repository
    if kind := KNOWN.get(repository.host) or KINDS.get(account.kind):
        return kind(client, account)
    is_asked = False
    for kind in ASKED:
        host = kind(client, account)
        is_served = await host.serves_this_api()
        if is_served:
            return host
        is_asked |= is_served is None
    if is_asked:
        raise Refused(
            f"{repository.site} does not say which API it has with the token in the secret {host.secret}. Check the"
            " token, or choose the API on the page of this secret.",
            401,
        )
    raise Refused(
        f"{repository.site} doesn't answer like GitHub, GitLab, Gitea or Forgejo. A lead can choose its API on the page"
        f" of the secret {host.secret}."
    )
