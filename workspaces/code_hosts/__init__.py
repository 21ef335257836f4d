"""Pull requests at code hosts: one contract (base), GitHub, GitLab, and Gitea with Forgejo."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from workspaces.code_hosts.base import (
    CodeHost,
    Opened,
    PullRequest,
    Refused,
    Repository,
    origin_of,
    repository_of,
    same_branch,
)
from workspaces.code_hosts.client import Client, Unreachable
from workspaces.code_hosts.gitea import Gitea
from workspaces.code_hosts.github import GitHub
from workspaces.code_hosts.gitlab import GitLab

__all__ = [
    "CodeHost", "Opened", "PullRequest", "Refused", "Repository", "api_of", "default_branch", "is_named_alone",
    "open_pull_request", "origin_of", "repository_of", "same_branch",
]  # fmt: skip

KNOWN = {"github.com": GitHub, "gitlab.com": GitLab, "codeberg.org": Gitea}
KINDS = (Gitea, GitLab, GitHub)  # in the order in which another host is asked what it is


async def open_pull_request(repository: Repository, wanted: PullRequest, token: str, addresses: tuple = ()) -> Opened:
    """Open a pull request, or return the one that is open for this branch. Raise Refused.

    Only `addresses` are contacted, if there are any: those that the host's name was checked to lead to.
    """
    async with _connected(repository, token, addresses) as host:
        return await host.open(wanted)


async def default_branch(repository: Repository, token: str, addresses: tuple = ()) -> str:
    """Return the name of the repository's default branch. Raise Refused; `addresses` as for a pull request."""
    async with _connected(repository, token, addresses) as host:
        return await host.default_branch()


@asynccontextmanager
async def _connected(repository: Repository, token: str, addresses: tuple) -> AsyncIterator[CodeHost]:
    async with Client(addresses) as client:
        try:
            host = await _host(client, repository, token)
        except Unreachable as error:
            raise Refused(f"{repository.host} did not answer: {error}.") from None
        yield host


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


async def _host(client: Client, repository: Repository, token: str) -> CodeHost:
    if kind := KNOWN.get(repository.host):
        return kind(client, repository, token)
    for kind in KINDS:
        host = kind(client, repository, token)
        if await host.is_it():
            return host
    raise Refused(f"{repository.host} has no API of GitHub, GitLab, Gitea or Forgejo.")
