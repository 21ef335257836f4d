"""The database's clock decides; this machine's stands in for it only where both are seen to be one."""

from datetime import UTC, datetime, timedelta
from weakref import WeakKeyDictionary

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from dashboard.database import clock

HOUR = timedelta(hours=1)
ASKS = pytest.mark.skipif(connection.vendor != "postgresql", reason="SQLite has no clock of its own")
# A server whose clock is an hour ahead: the name that is asked for is found here before the server's own.
AHEAD = """
    CREATE FUNCTION public.clock_timestamp() RETURNS timestamptz LANGUAGE sql
    AS 'SELECT pg_catalog.clock_timestamp() + interval ''1 hour''';
    SET LOCAL search_path TO public, pg_catalog
"""


def set_ahead():
    with connection.cursor() as cursor:
        cursor.execute(AHEAD)


@pytest.fixture
def socket(db, monkeypatch):
    """The server of the tests behind a socket's file, as a proxy to it may be; its clock was not looked at yet."""
    monkeypatch.setitem(connection.settings_dict, "HOST", "/run/postgresql")
    monkeypatch.setattr(clock, "_compared", WeakKeyDictionary(), raising=False)


def is_ahead() -> bool:
    return clock.now() - datetime.now(UTC) > HOUR / 2


@ASKS
def test_a_socket_that_leads_to_another_machine_has_that_machines_clock(socket):
    set_ahead()
    assert [is_ahead(), is_ahead()] == [True, True]


@ASKS
def test_a_server_on_this_machine_is_asked_once_for_many_times(socket):
    with CaptureQueriesContext(connection) as ran:
        times = [clock.now() for _ in range(20)]
    assert ([query["sql"] for query in ran], times == sorted(times)) == ([], True)


@ASKS
def test_the_clocks_are_compared_again_after_a_while(socket, monkeypatch):
    assert is_ahead() is False
    set_ahead()
    assert is_ahead() is False
    monkeypatch.setattr(clock, "COMPARED_EVERY_S", 0.0, raising=False)
    assert is_ahead() is True


def test_times_are_aware_and_do_not_go_back(db):
    times = [clock.now() for _ in range(20)]
    assert times == sorted(times)
    assert {moment.tzinfo is not None for moment in times} == {True}
