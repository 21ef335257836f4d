"""Which versions of Handrail may use one database at the same time: two neighbouring minor versions of one major."""

import re

from workspaces.host.identity import code_version
from workspaces.models import Runner

NUMBERS = re.compile(r"(\d+)\.(\d+)")


def are_neighbours(one: str, other: str) -> bool:
    """Return whether two versions are at most one minor version apart; True where one is unknown (a bare checkout)."""
    found = [NUMBERS.match(version) for version in (one, other)]
    if None in found:
        return True
    (major, minor), (other_major, other_minor) = (tuple(map(int, match.groups())) for match in found)
    return major == other_major and abs(minor - other_minor) <= 1


def refusal(version: str, *, host: str) -> str:
    """Return why this version must not run on `host` beside those of the other hosts, as a message; "" if it may.

    Hosts that nobody has heard of lately, or that are lost, do not count.
    """
    for row in Runner.objects.exclude(host=host).filter(lost_at=None).order_by("host"):
        if row.answers and not are_neighbours(version, row.version):
            return (
                f"{row.host} runs Handrail {row.version}, and this is {version}: only neighbouring versions run side "
                "by side. Go from one minor version to the next on all hosts, or stop the other hosts first."
            )
    return ""


def refusal_here(host: str) -> str:
    return refusal(code_version(), host=host)
