"""Rows are locked in one order, and what the database ended for another transaction is tried again."""

import threading

import psycopg
import pytest
from django.db import IntegrityError, OperationalError, connection, connections, transaction

from dashboard.database import retries
from dashboard.database.retries import retried
from dashboard.models import Actor, Agent, Event, Team
from tests.dashboard.test_batches import checked
from tests.support import CHECKOUT, lock_order

ON_POSTGRESQL = pytest.mark.skipif(connection.vendor != "postgresql", reason="SQLite has no locks of rows")


def deadlock() -> OperationalError:
    error = OperationalError("deadlock detected")
    error.__cause__ = psycopg.errors.DeadlockDetected("deadlock detected")
    return error


@pytest.fixture
def failing():
    """`failing(*errors)`: a function that raises these, one at each call, and then returns how often it was called."""

    def make(*errors):
        left, calls = list(errors), []

        @retried
        def work():
            calls.append(1)
            if left:
                raise left.pop(0)
            return len(calls)

        return work

    return make


@pytest.mark.django_db(transaction=True)
def test_a_deadlock_is_tried_again(failing):
    serialization = OperationalError("could not serialize access")
    serialization.__cause__ = psycopg.errors.SerializationFailure()
    assert failing(deadlock(), serialization)() == 3


@pytest.mark.django_db(transaction=True)
def test_a_deadlock_is_retried_a_limited_number_of_times(failing, monkeypatch):
    monkeypatch.setattr(retries, "FIRST_PAUSE", 0)
    work = failing(*(deadlock() for _ in range(retries.TRIES)))
    with pytest.raises(OperationalError):
        work()
    assert work() == retries.TRIES + 1


@pytest.mark.django_db(transaction=True)
def test_nothing_else_is_tried_again_and_nothing_within_a_transaction(failing):
    work = failing(IntegrityError("UNIQUE"))
    with pytest.raises(IntegrityError):
        work()
    work = failing(deadlock())
    with transaction.atomic():
        with pytest.raises(OperationalError):
            work()
        assert work() == 2


@ON_POSTGRESQL
@pytest.mark.django_db(transaction=True)
def test_both_of_two_that_meet_in_a_deadlock_end_well(team):
    agents = [Agent.objects.create(team=team, name=name) for name in ("a", "b")]
    line, failed = threading.Barrier(2), []

    def lock_both(first, second):
        met = []

        @retried
        def work():
            with transaction.atomic():
                Agent.objects.locked().get(pk=first.pk)
                if not met:  # each has one of the two
                    met.append(line.wait(10))
                Agent.objects.filter(pk=second.pk).update(paused_at=None)

        try:
            work()
        except OperationalError as error:
            failed.append(error)
        finally:
            connections.close_all()

    threads = [threading.Thread(target=lock_both, args=pair) for pair in (agents, agents[::-1])]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []


@ON_POSTGRESQL
@pytest.mark.django_db(transaction=True)
def test_a_new_row_does_not_wait_for_a_locked_row_that_it_refers_to(team):
    made = []

    def add():
        made.append(Agent.objects.create(team_id=team.pk, name="new"))
        connections.close_all()

    with Team.objects.turn(team.pk):
        thread = threading.Thread(target=add)
        thread.start()
        thread.join(20)
        assert len(made) == 1


@ON_POSTGRESQL
@pytest.mark.django_db
def test_a_test_sees_a_transaction_that_takes_the_turn_too_late(team, agent, locks_in_order):
    of_ours = {}  # a module of ours; what a test itself does may come in any order
    exec(compile("def change(rows): rows.update(paused_at=None)", f"{CHECKOUT}/dashboard/x.py", "exec"), of_ours)

    def record():
        Event.objects.record(team, actor=Actor.system("test"), verb="test", subject=agent)

    with transaction.atomic():
        of_ours["change"](Agent.objects.filter(pk=agent.pk))
        record()
    [words] = locks_in_order
    assert words.startswith("the team's turn comes after dashboard_agent (dashboard/x.py:1 change), at ")
    locks_in_order.clear()
    with Team.objects.turn(team.pk):
        of_ours["change"](Agent.objects.filter(pk=agent.pk))
        record()
    with transaction.atomic():
        made = Agent.objects.create(team=team, name="new")  # which nobody else can lock
        made.save(update_fields=["name"])
        record()
    assert locks_in_order == []
    assert Team._meta.db_table == lock_order.TURN


@pytest.mark.parametrize(
    ("line", "is_refused"),
    [
        ("rows.select_for_update().get()", True),
        ("Team.objects.select_for_update(no_key=True)", True),
        ("Team.objects.locked().get()", False),
    ],
)
def test_lint_finds_a_lock_of_another_kind(line, is_refused):
    assert bool(checked(f"def lock(rows):\n    {line}")) is is_refused
