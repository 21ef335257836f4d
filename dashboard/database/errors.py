"""Tell errors of the database apart: its server is away, it ended one transaction for another, its disk is full."""

import sqlite3

from django.db import DatabaseError, InterfaceError, OperationalError

ENDED_FOR_ANOTHER = {"40P01", "40001"}  # deadlock detected, serialization failure: the same transaction may succeed
# SQLSTATEs of a server that closes connections or takes no more: connection exceptions, shutdown, starting, too many.
AWAY = ("08", "57P", "53300")


def is_away(error: BaseException | None) -> bool:
    """Return whether the server of the database cannot be reached or takes no connection now.

    libpq gives no SQLSTATE to what it finds out by itself: a refused, lost or closed connection.
    """
    while error is not None:
        if isinstance(error, (OperationalError, InterfaceError)) and _is_of_postgresql(error):
            state = _sqlstate(error)
            return state is None or state.startswith(AWAY)
        error = error.__cause__
    return False


def may_pass(error: BaseException | None) -> bool:
    """Return whether the same request may succeed soon: the server is away, or SQLite's file is locked."""
    return is_away(error) or (isinstance(error, OperationalError) and "is locked" in str(error))


def ended_for_another(error: BaseException) -> bool:
    """Return whether the database rolled a transaction back in favour of another one: run again, it may succeed."""
    return isinstance(error, DatabaseError) and _sqlstate(error) in ENDED_FOR_ANOTHER


def is_full(error: BaseException) -> bool:
    """Return whether the disk of the database, or of another SQLite file, is full."""
    said = str(error)
    return isinstance(error, DatabaseError | sqlite3.Error) and ("disk is full" in said or "No space left" in said)


def _is_of_postgresql(error) -> bool:
    return type(error.__cause__).__module__.partition(".")[0] == "psycopg"


def _sqlstate(error) -> str | None:
    return getattr(error.__cause__, "sqlstate", None)
