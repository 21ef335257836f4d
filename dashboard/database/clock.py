"""The database's clock, which alone decides what has expired."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime, timedelta

from django.db import connection

_told: ContextVar[datetime | None] = ContextVar("told", default=None)


@contextmanager
def told_as(moment: datetime) -> Iterator[None]:
    """Have `now` return this time within the block: for questions of one moment, and demonstration data of the past."""
    token = _told.set(moment)
    try:
        yield
    finally:
        _told.reset(token)


def now() -> datetime:
    """Return the database's current time, aware, to the microsecond (SQLite: millisecond).

    SQLite, and a server that is reached through a socket's file, have this machine's clock: nothing asks for it.
    """
    if moment := _told.get():
        return moment
    if connection.vendor == "sqlite":
        present = datetime.now(UTC)
        return present.replace(microsecond=present.microsecond // 1000 * 1000)
    if connection.settings_dict["HOST"].startswith("/"):
        return datetime.now(UTC)
    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        return cursor.fetchone()[0]


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
