"""The outbox: a row is claimed by one process, tried again after longer waits, and given up in words or never."""

import threading
from datetime import timedelta

import pytest
from django.apps import apps
from django.db import connections

from approvals.models import AapInstance, Delivery, LogTarget
from approvals.notify.log_targets.sending import LogEvents
from approvals.notify.sending import Notifications
from approvals.protocols.aap.sending import Webhooks
from dashboard.database import clock
from dashboard.workers import outbox
from dashboard.workers.lanes import LANE_OF, LANES
from dashboard.workers.outbox import Message, NotNeeded, NotSent, Outgoing, Sender

MINUTES = (60, 300, 900)


class Letters(Sender):
    """Sends one letter to each row, by a function for each address."""

    waits = MINUTES

    def __init__(self, **ways):
        self.ways, self.recorded = ways, []

    def due(self, now):
        return LogTarget.objects.filter(next_try_at__lte=now).order_by("address")

    def message(self, row, now):
        way = self.ways[row.address]
        if isinstance(way, Exception):
            raise way
        return Message(way, row.address)

    def sent(self, row, about, now):
        self.recorded.append(("sent", about))
        return 1

    def failed(self, row, about, error, now):
        self.recorded.append(("failed", about, str(error)))


@pytest.fixture
def add(team):
    def add(*addresses):
        now = clock.now()
        for address in addresses:
            LogTarget.objects.create(team=team, kind="webhook", address=address, created_at=now, next_try_at=now)

    return add


def arrive():
    """Take a message."""


def refuse():
    raise NotSent("It is full.")


def break_down():
    raise KeyError("a mistake in the sender")


def send(sender):
    return outbox.send_due(sender, seconds=30)


def rows() -> dict[str, tuple]:
    """(failures, minutes to the next try, problem) of each address."""
    found = LogTarget.objects.order_by("address")
    waits = {
        row.address: row.next_try_at and round((row.next_try_at - clock.now()).total_seconds() / 60) for row in found
    }
    return {row.address: (row.failures, waits[row.address], row.problem) for row in found}


def let_time_pass():
    LogTarget.objects.filter(next_try_at__isnull=False).update(next_try_at=clock.now())


def test_what_is_taken_is_sent_once(add):
    add("a", "b")
    sender = Letters(a=arrive, b=arrive)
    assert (send(sender), send(sender)) == (2, 0)
    assert sender.recorded == [("sent", "a"), ("sent", "b")]
    assert rows() == {"a": (0, None, ""), "b": (0, None, "")}


def test_each_failure_in_a_row_waits_longer_and_the_last_wait_repeats(add):
    add("a")
    sender, waits = Letters(a=refuse), []
    for _ in range(5):
        assert (send(sender), send(sender)) == (0, 0)  # the second comes before its time
        waits.append(rows()["a"])
        let_time_pass()
    assert waits == [(n, wait, "It is full.") for n, wait in enumerate((1, 5, 15, 15, 15), 1)]
    assert len(sender.recorded) == 5
    sender.ways["a"] = arrive
    assert (send(sender), rows()["a"]) == (1, (0, None, ""))


def test_a_row_that_is_given_up_says_why(add):
    add("a", "b")

    def never():
        raise NotSent("There is no such address.", again=False)

    sender = Letters(a=refuse, b=never)
    sender.gives_up = True
    send(sender)
    assert rows() == {"a": (1, 1, "It is full."), "b": (1, None, "There is no such address.")}
    LogTarget.objects.filter(address="b").delete()
    for _ in range(3):
        let_time_pass()
        send(sender)
    assert rows() == {"a": (4, None, "It is full.")}


def test_the_other_side_may_ask_for_a_longer_wait(add):
    add("a", "b")

    def later(wait):
        raise NotSent("Later.", wait=wait)

    send(Letters(a=lambda: later(timedelta(hours=1)), b=lambda: later(timedelta(seconds=1))))
    assert rows() == {"a": (1, 60, "Later."), "b": (1, 1, "Later.")}


def test_a_row_that_hangs_or_fails_does_not_hold_up_the_others(add, monkeypatch):
    monkeypatch.setattr(outbox, "DEADLINE", 0.5)
    add("a", "b", "c", "d", "e")
    released = threading.Event()
    sender = Letters(a=released.wait, b=break_down, c=KeyError(), d=NotNeeded("It is over."), e=arrive)
    sender.waits = (600,)
    assert send(sender) == 1
    released.set()
    assert rows() == {
        "a": (1, 10, "It did not answer within 0.5 s."),
        "b": (1, 10, "It could not be sent; the queue's log says why."),
        "c": (1, 10, "It could not be prepared; the queue's log says why."),
        "d": (0, None, "It is over."),
        "e": (0, None, ""),
    }
    assert [(what, about) for what, about, *_ in sender.recorded] == [("failed", "a"), ("failed", "b"), ("sent", "e")]


@pytest.mark.parametrize("ends", ["sent", "failed"])
def test_a_row_whose_end_cannot_be_recorded_loses_no_other(add, ends):
    add("a", "b", "c")

    class Forgetful(Letters):
        def sent(self, row, about, now):
            return self.write(super().sent, row, about, now)

        def failed(self, row, about, error, now):
            self.write(super().failed, row, about, error, now)

        def write(self, record, row, *fields):
            LogTarget.objects.filter(pk=row.pk).update(failures=7)  # not kept
            if row.address == "b":
                LogTarget.objects.create(pk=row.pk)  # breaks the transaction
            return record(row, *fields)

    def never():
        raise NotSent("There is no such address.", again=False)

    sender = Forgetful(a=arrive, b=arrive if ends == "sent" else never, c=arrive)
    assert (send(sender), sender.recorded) == (2, [("sent", "a"), ("sent", "c")])
    found = rows()
    assert found["b"] == (
        (1, 1, "What became of it could not be stored; the queue's log says why.")
        if ends == "sent"
        else (1, 1, "There is no such address.")
    )
    assert (found["a"][1:], found["c"][1:]) == ((None, ""), (None, ""))
    assert (send(sender), len(sender.recorded)) == (0, 2)  # nothing is left leased and due


def test_each_turn_sends_one_row_at_a_time(add):
    add("a", "b", "c")
    sender = Letters(a=arrive, b=arrive, c=arrive)
    sender.turn = lambda row: row.address == "b"
    assert [row.address for row, _ in outbox.claim(sender, clock.now())] == ["a", "b"]


def test_a_process_that_is_killed_leaves_the_row_due_after_its_lease(add):
    add("a")
    sender = Letters(a=arrive)
    assert len(outbox.claim(sender, clock.now())) == 1  # and then the process is killed
    assert (outbox.claim(sender, clock.now()), rows()["a"][1] > 0) == ([], True)
    assert len(outbox.claim(sender, clock.now() + outbox.LEASE)) == 1


def test_what_others_changed_while_it_was_sent_stays(add):
    add("a")
    sender = Letters(a=refuse)
    [claimed] = outbox.claim(sender, clock.now())
    LogTarget.objects.update(next_try_at=None)  # as where it is switched off and on
    outbox.record(sender, *claimed, NotSent("It is full."), clock.now())
    assert (rows()["a"], sender.recorded) == ((0, None, ""), [("failed", "a", "It is full.")])


@pytest.mark.django_db(transaction=True)
def test_of_several_processes_one_claims_a_row(add):
    """Four at once, on the database of the tests: SQLite or PostgreSQL."""
    names = [f"{number:02}" for number in range(20)]
    add(*names)
    sender, got, start = Letters(**dict.fromkeys(names, arrive)), [], threading.Barrier(4)

    def work():
        start.wait()
        try:
            got.extend(row.address for row, _ in outbox.claim(sender, clock.now()))
        finally:
            connections.close_all()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(got) == names


def test_every_table_of_what_goes_out_is_a_row_of_the_outbox():
    """A model with a time of its next try is sent by the outbox, and by nothing of its own."""
    models = {model for model in apps.get_models() if any(f.name == "next_try_at" for f in model._meta.fields)}
    assert models == {AapInstance, Delivery, LogTarget}
    assert {model for model in models if issubclass(model, Outgoing)} == models


@pytest.mark.parametrize("sender", [Notifications, LogEvents, Webhooks])
def test_waits_grow_and_a_try_ends_before_its_lease(sender):
    assert list(sender.waits) == sorted(sender.waits)
    assert timedelta(seconds=outbox.DEADLINE) < outbox.LEASE
    for task in ("approvals.tasks.notify", "approvals.tasks.send_log", "approvals.tasks.send_webhooks"):
        assert LANES[LANE_OF[task]].timeout > outbox.DEADLINE


def test_the_waits_are_those_of_the_pages_about_them():
    assert Notifications.waits == (10, 30, 120, 600, 1800)
    assert LogEvents.waits == (5, 10, 30, 120, 600, 3600)
    assert Webhooks.waits == (3, 10, 30, 120, 600, 3600, 10800)
    assert (Notifications.gives_up, LogEvents.gives_up, Webhooks.gives_up) == (True, False, False)
