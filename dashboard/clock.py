"""The database's clock: the one clock that decides what has expired."""

from datetime import UTC, datetime

from django.db import connection


def now() -> datetime:
    """The database's present, aware, to the microsecond (SQLite: millisecond)."""
    with connection.cursor() as cursor:
        if connection.vendor == "sqlite":
            cursor.execute("SELECT strftime('%Y-%m-%d %H:%M:%f', 'now')")
            return datetime.fromisoformat(cursor.fetchone()[0]).replace(tzinfo=UTC)
        cursor.execute("SELECT clock_timestamp()")
        return cursor.fetchone()[0]
