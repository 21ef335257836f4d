"""What was refused to a program that ran in an envelope, gathered once it has ended."""

from django.utils.dateparse import parse_datetime

from dashboard.database import clock
from workspaces.egress.attempts import BlockCode
from workspaces.envelope.output_refusals import refusals_in
from workspaces.models import Contact

MAX_HOSTS = 20
NOT_REFUSED = (BlockCode.UNRESOLVED, BlockCode.UNREACHABLE)  # it was let through, and nobody answered


async def refused(job, told: dict, tail: bytes, hosts=None) -> list[dict]:
    """Return [{kind, what}] of a held program that ended as `told`, whose output ended with `tail`.

    System calls, sockets and masked secrets are those that the kernel reported. Hosts are those of `hosts()`; without
    it, those that the proxy refused to the workspace meanwhile, perhaps to another program of it. Other files are those
    that the program itself named.
    """
    tried = await hosts_refused(job, told) if hosts is None else as_blocked(hosts())
    known = [*told["blocked"], *tried]
    return [*known, *(each for each in refusals_in(tail) if each not in known)]


async def hosts_refused(job, told: dict) -> list[dict]:
    """Return [{kind, what}] of the hosts that the proxy refused to the workspace while the program of `told` ran."""
    await job.daemon.network.flush(job.workspace.pk)
    return as_blocked(await job.thread(_hosts, job.workspace, told))


def as_blocked(hosts: list[tuple[str, int]]) -> list[dict]:
    return [{"kind": "connect", "what": f"{host}:{port}"} for host, port in hosts]


def _hosts(workspace, told: dict) -> list[tuple[str, int]]:
    return refused_hosts(workspace, parse_datetime(told["started_at"]) if told.get("started_at") else clock.now())


def refused_hosts(workspace, since) -> list[tuple[str, int]]:
    """Return (host, port) of what the proxy has refused to the workspace since then and saved, the oldest first."""
    tried = Contact.objects.filter(workspace=workspace, allowed=False, last_at__gte=since).exclude(host="")
    tried = tried.exclude(code__in=NOT_REFUSED)
    found = tried.order_by("last_at").values_list("host", "port")[:MAX_HOSTS]
    return list(dict.fromkeys(found))
