"""Work that only one process of an installation does at a time, whatever host it is on."""

from contextlib import contextmanager

from django.db import connection


@contextmanager
def one_at_a_time(number: int):
    """Hold a lock of PostgreSQL, once no other process has it; on SQLite, which one host uses, hold nothing."""
    if connection.vendor != "postgresql":
        yield
        return
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_lock(%s)", [number])
    try:
        yield
    finally:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_unlock(%s)", [number])
