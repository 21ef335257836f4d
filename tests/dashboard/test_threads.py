"""Calls share a bounded number of threads and connections; what finds none free waits."""

import asyncio
import threading

import pytest
from asgiref.sync import sync_to_async
from django.db import OperationalError, connection, connections

from dashboard.database import threads
from dashboard.database.threads import DatabaseThreads, on_request_threads, standing_aside
from dashboard.models import Team
from tests.support.waiting import until

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def two():
    made = DatabaseThreads(2, "two")
    made.queries = DatabaseThreads(1, "asks")
    yield made
    made.shutdown()
    made.queries.shutdown()


class Gate:
    """Calls that begin, and go on when they are let go."""

    def __init__(self):
        self.begun, self.most, self.lock, self.open = 0, 0, threading.Lock(), threading.Event()

    def call(self):
        with self.lock:
            self.begun += 1
            self.most = max(self.most, self.begun)
        self.open.wait(20)
        with self.lock:
            self.begun -= 1
        return Team.objects.count()


def test_two_at_once_and_the_others_wait(two, team):
    gate = Gate()
    calls = [two.submit(gate.call) for _ in range(40)]
    until(lambda: gate.begun == 2)
    gate.open.set()
    assert [call.result(20) for call in calls] == [1] * 40
    assert gate.most == 2
    assert len([thread for thread in threading.enumerate() if thread.name == "two"]) == 2


def test_an_error_is_the_callers_and_a_call_that_was_cancelled_does_not_begin(two):
    gate, ran = Gate(), []
    first = [two.submit(gate.call) for _ in range(2)]
    until(lambda: gate.begun == 2)
    later, failing = two.submit(ran.append, 1), two.submit(lambda: 1 / 0)
    assert later.cancel()
    gate.open.set()
    with pytest.raises(ZeroDivisionError):
        failing.result(20)
    assert [call.result(20) for call in first] == [0, 0]
    assert ran == []


def test_a_waiting_request_gives_up_its_connection(two, team):
    waiting, go_on, seen = threading.Barrier(4), threading.Event(), []

    def wait():
        assert Team.objects.count() == 1
        with standing_aside() as ask:
            waiting.wait(20)  # three at once, of two
            seen.append((connection.connection is None, ask(Team.objects.count)))
            go_on.wait(20)
        return Team.objects.count()

    calls = [two.submit(wait) for _ in range(3)]
    waiting.wait(20)
    assert two.submit(Team.objects.count).result(20) == 1
    go_on.set()
    assert [call.result(20) for call in calls] == [1, 1, 1]
    assert seen == [(True, 1)] * 3


def test_a_request_that_stops_waiting_waits_for_a_place(two):
    gate, aside, back = Gate(), threading.Event(), threading.Event()

    def wait():
        with standing_aside():
            aside.set()
            back.wait(20)
        return gate.begun

    call = two.submit(wait)
    assert aside.wait(20)
    others = [two.submit(gate.call) for _ in range(3)]
    until(lambda: gate.begun == 2)
    back.set()
    assert not call.done()
    gate.open.set()
    assert call.result(20) <= 1  # one of the two places was its own
    assert [each.result(20) for each in others] == [0, 0, 0]


def test_within_a_transaction_and_elsewhere_nobody_stands_aside(two, team):
    from django.db import transaction

    def within():
        with transaction.atomic(), standing_aside() as ask:
            return ask(Team.objects.count), connection.connection is not None

    assert two.submit(within).result(20) == (1, True)
    with standing_aside() as ask:
        assert ask(Team.objects.count) == 1


def test_threads_without_work_end_with_their_connections(monkeypatch):
    monkeypatch.setattr(threads, "IDLE_SECONDS", 0.05)
    made = DatabaseThreads(3, "short")
    gate = Gate()
    calls = [made.submit(gate.call) for _ in range(3)]
    until(lambda: gate.begun == 3)
    gate.open.set()
    assert [call.result(20) for call in calls] == [0, 0, 0]
    until(lambda: not [thread for thread in threading.enumerate() if thread.name == "short"])
    assert made.submit(Team.objects.count).result(20) == 0
    made.shutdown()


def test_a_request_is_a_thread_only_while_its_sync_code_runs(monkeypatch, team):
    monkeypatch.setattr(threads, "REQUEST_THREADS", 2)
    most, at_once, lock = 0, 0, threading.Lock()

    def query():
        nonlocal most, at_once
        with lock:
            at_once += 1
            most = max(most, at_once)
        found = Team.objects.count()
        with lock:
            at_once -= 1
        return found

    async def app(scope, receive, send):
        scope["found"] = await sync_to_async(query)()
        await asyncio.sleep(0.2)  # three hundred that wait are no three hundred threads
        scope["found"] += await sync_to_async(query)()

    async def crowd():
        scopes = [{"type": "http"} for _ in range(300)]
        await asyncio.gather(*(on_request_threads(app)(scope, None, None) for scope in scopes))
        kept = [thread for thread in threading.enumerate() if thread.name == "request"]
        return {scope["found"] for scope in scopes}, len(kept)

    found, kept = asyncio.run(crowd())
    assert (found, most <= 2, kept <= 2) == ({2}, True, True)


@pytest.mark.skipif(connection.vendor != "postgresql", reason="SQLite has no server that closes connections")
def test_a_connection_that_the_server_closed_is_replaced(two, monkeypatch):
    monkeypatch.setattr(threads, "UNCHECKED_SECONDS", 0)

    def pid() -> int:
        with connection.cursor() as cursor:
            return cursor.execute("SELECT pg_backend_pid()").fetchone()[0]

    first = two.submit(pid).result(20)
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_terminate_backend(%s)", [first])
    assert two.submit(pid).result(20) != first

    def lose():
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_terminate_backend(pg_backend_pid())")

    with pytest.raises(OperationalError):
        two.submit(lose).result(20)
    assert two.submit(pid).result(20) not in (first, 0)
    connections.close_all()
