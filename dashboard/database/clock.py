"""The database's clock, which alone decides what has expired."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime, timedelta
from weakref import WeakKeyDictionary

from django.db import connection

COMPARED_EVERY_S = 60.0
_frozen: ContextVar[datetime | None] = ContextVar("told", default=None)
# {the driver's connection: (when the clocks were compared, whether the server has this machine's)}
_compared: WeakKeyDictionary = WeakKeyDictionary()


@contextmanager
def frozen_at(moment: datetime) -> Iterator[None]:
    """Have `now` return this time within the block: for questions of one moment, and demonstration data of the past."""
    token = _frozen.set(moment)
    try:
        yield
    finally:
        _frozen.reset(token)


def now() -> datetime:
    """Return the database's current time, aware, to the microsecond (SQLite: millisecond).

    SQLite has this machine's clock, and so has a server on it, which is asked only now and then.
    """
    if moment := _frozen.get():
        return moment
    if connection.vendor == "sqlite":
        present = datetime.now(UTC)
        return present.replace(microsecond=present.microsecond // 1000 * 1000)
    if connection.settings_dict["HOST"].startswith("/") and _is_this_machines():
        return datetime.now(UTC)
    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        return cursor.fetchone()[0]


def _is_this_machines() -> bool:
    """Return whether the server has this machine's clock: the socket's file may be that of a proxy to another machine.

    The driver is asked without Django, so that the number of a page's statements does not depend on the time.
    """
    connection.ensure_connection()
    server = connection.connection
    compared_at, is_same = _compared.get(server, (float("-inf"), False))
    if time.monotonic() - compared_at > COMPARED_EVERY_S:
        with connection.wrap_database_errors:
            before = datetime.now(UTC)
            theirs = server.execute("SELECT clock_timestamp()").fetchone()[0]
            is_same = before <= theirs <= datetime.now(UTC)
        _compared[server] = (time.monotonic(), is_same)
    return is_same


def in_utc(moment: datetime) -> str:
    """Format a time for agents and logs as the pages do, but in UTC: "14:05 UTC", "3 Dec 14:05 UTC"."""
    moment, today = moment.astimezone(UTC), datetime.now(UTC)
    year = "" if moment.year == today.year else f" {moment:%Y}"
    day = "" if moment.date() == today.date() else f"{moment:%-d %b}{year} "
    return f"{day}{moment:%H:%M} UTC"


def next_at_hour(hour: int) -> datetime:
    """Return the next time at which the hour (UTC) begins."""
    present = now()
    today = present.replace(hour=hour, minute=0, second=0, microsecond=0)
    return today if today > present else today + timedelta(days=1)
