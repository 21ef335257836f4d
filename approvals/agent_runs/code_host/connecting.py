"""Ask a code host with the team's token, from the queue."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import datetime, timedelta

from approvals.models import HostedRepository
from dashboard.models import Team
from dashboard.problems import Problem
from workspaces import code_hosts
from workspaces.code_hosts import CodeHost
from workspaces.services import pull_requests

LEASE = timedelta(minutes=3)  # for which nobody else reads what is being read
AFTER_A_PROBLEM = timedelta(minutes=5)


class Unread(Exception):
    """The host could not be asked; the message says why."""


def ask(team: Team, address: str, kind: str, question: Callable[[CodeHost], Awaitable]):
    """Return the answer of a question to the repository's host. Raise Unread. Call it outside of transactions."""
    repository = code_hosts.repository_of(address)
    if repository is None:
        raise Unread(f"{address} is no repository at a code host.")
    try:
        account = pull_requests.account_for(team, repository)
        return asyncio.run(_asked(replace(account, kind=account.kind or kind), question))
    except Problem as problem:
        raise Unread(problem.detail) from None
    except code_hosts.Refused as refused:
        raise Unread(str(refused)) from None


async def _asked(account: code_hosts.Account, question):
    async with code_hosts.connected(account) as host:
        return await question(host)


def claim(row, now: datetime) -> bool:
    """Take the reading of a row over; of several queues one does."""
    rows = type(row).objects.filter(pk=row.pk, read_at=row.read_at)
    return bool(rows.update(read_at=now + LEASE))


def address_of(task, repository: HostedRepository | None) -> tuple[str, str]:
    """Return the address of a task's repository, and the kind of its host if that is known."""
    return (repository.address, repository.kind) if repository else (task.repository, "")
