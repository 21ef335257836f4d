"""A database that is away, or full, while the runner works: what has not begun waits, what has ended is recorded."""

import sqlite3

import pytest
from asgiref.sync import async_to_sync
from django.db import OperationalError, connection

from dashboard.database import outages
from dashboard.models import Actor
from workspaces import operations
from workspaces.host import paths
from workspaces.models import Operation, Phase, StoreTask
from workspaces.runner import working
from workspaces.runner.job import Job
from workspaces.services import store_maintenance
from workspaces.store import Store

pytestmark = pytest.mark.django_db
FULL = "database or disk is full"


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    monkeypatch.setattr(working, "PAUSE", 0)


@pytest.fixture
def due(team):
    place = paths.store_of(team.pk)
    place.parent.mkdir(parents=True, exist_ok=True)
    Store.create(place)
    store_maintenance.request(team, StoreTask.CHECK, by=Actor.system("test"))
    return Operation.objects.get()


def fill(ledger):
    for number in range(100_000):
        ledger.write(f"{number:036}", 1, "settled")


def test_what_a_full_ledger_kept_from_starting_is_due_again_and_done_once_there_is_room(due, runner):
    ledger = runner.daemon.ledger
    ledger._db.execute("PRAGMA max_page_count = 1")  # SQLite takes as many as it has
    with pytest.raises(sqlite3.Error, match=FULL):
        fill(ledger)
    runner()
    due.refresh_from_db()
    assert (due.phase, due.outcome) == (Phase.DUE, None)
    ledger._db.execute("PRAGMA max_page_count = 1000000")
    runner()
    due.refresh_from_db()
    assert (due.phase, due.outcome["ok"]) == (Phase.SETTLED, True)


@pytest.mark.parametrize("times", [1, 3])
def test_an_end_is_recorded_as_it_was_once_the_database_takes_it(due, runner, times):
    refused = []

    def refuse(execute, sql, params, many, context):
        if '"settled_at" = %s' in sql and len(refused) < times:
            refused.append(sql)
            raise OperationalError(FULL)
        return execute(sql, params, many, context)

    with connection.execute_wrapper(refuse):
        runner()
    due.refresh_from_db()
    assert (len(refused), due.phase, due.outcome["ok"], due.epoch) == (times, Phase.SETTLED, True, 1)


def test_another_error_while_it_is_recorded_is_not_waited_for(due, runner):
    refused = []

    def refuse(execute, sql, params, many, context):
        if '"settled_at" = %s' in sql and not refused:
            refused.append(sql)
            raise OperationalError("malformed")
        return execute(sql, params, many, context)

    with connection.execute_wrapper(refuse):
        runner()
    due.refresh_from_db()
    assert (due.phase, "malformed" in due.outcome["reason"]) == (Phase.UNCERTAIN, True)


def test_a_start_that_the_database_did_not_take_has_not_happened(due, runner):
    """The ledger says by then that it has started, and the disk is full at the commit."""
    refused = []

    def refuse(execute, sql, params, many, context):
        if '"started_at" = %s' in sql and not refused:
            refused.append(execute(sql, params, many, context))
            runner.daemon.ledger.write(due.pk, due.epoch + 1, "started")
            raise OperationalError(FULL)
        return execute(sql, params, many, context)

    with connection.execute_wrapper(refuse):
        runner()
    due.refresh_from_db()
    assert (len(refused), due.phase, runner.daemon.ledger.get(due.pk)) == (1, Phase.DUE, (1, "claimed"))
    runner()
    due.refresh_from_db()
    assert (due.phase, due.outcome["ok"]) == (Phase.SETTLED, True)


def test_what_has_begun_waits_for_room(due, runner, monkeypatch):
    """A step of work that has begun, and that a full disk kept from writing, is done once there is room."""
    monkeypatch.setattr(outages, "PAUSE", 0)
    refused = []
    job = Job(runner.daemon, operations.claim(due, runner.daemon.row))

    def step():
        refused.append(1)
        if len(refused) < 3:
            raise OperationalError(FULL)
        return "done"

    with pytest.raises(OperationalError, match=FULL):
        async_to_sync(job.thread)(step)
    async_to_sync(job.mark_started)()
    assert (async_to_sync(job.thread)(step), len(refused)) == ("done", 3)


def test_a_start_that_was_saved_and_not_answered_has_happened(due, runner):
    """The database went away right after the commit, so the start is tried again."""
    job = Job(runner.daemon, operations.claim(due, runner.daemon.row))
    async_to_sync(job.mark_started)()
    job.operation.phase = Phase.CLAIMED
    async_to_sync(job.mark_started)()
    assert job.operation.phase == Phase.STARTED
    Operation.objects.filter(pk=due.pk).update(epoch=job.operation.epoch + 1)
    job.operation.phase = Phase.CLAIMED
    with pytest.raises(operations.StaleEpoch):
        async_to_sync(job.mark_started)()


def test_a_claim_that_was_saved_and_not_answered_is_due_again(due, runner):
    operations.claim(due, runner.daemon.row)
    claimed = [runner.daemon._claim_due() for _ in range(2)]
    assert [[operation.pk for operation in each] for each in claimed] == [[], [due.pk]]
    runner.daemon._jobs[due.pk] = None
    assert runner.daemon._claim_due() == []
    due.refresh_from_db()
    assert (due.phase, due.epoch) == (Phase.CLAIMED, 2)
    runner.daemon.lead.leave()
