"""Which versions of Handrail may use one database at the same time: two neighbouring minor versions of one major.

A version's migrations leave what its predecessor needs; the one after it takes that away. So while hosts are upgraded
one by one, an older host goes on with the database that a newer neighbour has migrated.
"""

import re
from functools import reduce
from operator import or_

from django.conf import settings
from django.db import connection
from django.db.models import Q

from dashboard.database import clock
from workspaces.host import identity
from workspaces.models import RUNNER_TIMEOUT, Runner

NUMBERS = re.compile(r"(\d{1,9})\.(\d{1,9})")
HEARTBEATS = ("heartbeat_at", "web_at", "queue_at")


def _numbers(version: str) -> tuple[int, int] | None:
    found = NUMBERS.match(version)
    return tuple(map(int, found.groups())) if found else None


def are_neighbours(one: str, other: str) -> bool:
    """Return whether two versions are at most one minor version apart; True where one is unknown (a bare checkout)."""
    found = [_numbers(one), _numbers(other)]
    if None in found:
        return True
    (major, minor), (other_major, other_minor) = found
    return major == other_major and abs(minor - other_minor) <= 1


def are_kept() -> bool:
    """Return whether the database has a table of hosts; a new one has none yet."""
    return Runner._meta.db_table in connection.introspection.table_names()


def refusal(version: str, *, host: str) -> str:
    """Return why this version must not run on `host` beside those of the other hosts, as a message; "" if it may.

    Hosts that nobody has heard of lately do not count. It also reads the table as it was before a migration.
    """
    for name, other in _answering().exclude(host=host).order_by("host").values_list("host", "version"):
        if not are_neighbours(version, other):
            return (
                f"{name} runs Handrail {other}, and this is {version}: only neighbouring versions run side by side. "
                "Go from one minor version to the next on all hosts, or stop the other hosts first."
            )
    return ""


def _answering():
    with connection.cursor() as cursor:
        table = connection.introspection.get_table_description(cursor, Runner._meta.db_table)
    known = {column.name for column in table}
    since = clock.now() - RUNNER_TIMEOUT
    heard = (Q(**{f"{name}__gt": since}) for name in HEARTBEATS if name in known)
    return Runner.objects.filter(reduce(or_, heard))


def note_here():
    """Note this host's version before it migrates the database, so that hosts of the older one go on with it."""
    mine = Runner.objects.filter(host=settings.HANDRAIL_HOST_NAME, installation=identity.installation())
    mine.update(version=identity.code_version())


def has_newer_neighbour() -> bool:
    """Return whether a host has the next minor version, whose migrations this one can live with."""
    here = _numbers(identity.code_version())
    known = map(_numbers, Runner.objects.members().values_list("version", flat=True))
    return here is not None and any(found == (here[0], here[1] + 1) for found in known)
