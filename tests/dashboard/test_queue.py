"""The queue: what is due is done in a process of its own, once, and what goes wrong there stays there."""

import os
import signal
import threading
import time
from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from django_q.models import Failure, OrmQ, Schedule, Success
from django_q.tasks import async_task

from approvals.actions import gate
from approvals.evaluation.calls import Call
from approvals.models import Channel, Delivery
from approvals.notify.watch import Watch
from dashboard.people.access import caller_by_token
from dashboard.people.tokens import find_token
from dashboard.processes.queue import HEARS_ALL, POLL_INTERVAL, SIGNALS, Queue, do
from dashboard.workers.lanes import LANES
from dashboard.workers.wakes import empty, listening_by_signal, wake_feeds
from tests.support.waiting import until

UPKEEP = LANES["handrail"]


@pytest.fixture
def ask(agent_token):
    caller = caller_by_token(find_token(agent_token))
    return lambda command: gate.submit(Call(tool="Bash", arguments={"command": command}), caller=caller)


def due() -> tuple:
    row = OrmQ.objects.get()
    return row.pk, row.payload


def test_a_task_is_done_and_its_result_is_kept(transactional_db):
    async_task("math.sqrt", 16)
    do(UPKEEP, *due())
    assert [(row.func, row.result, row.attempt_count) for row in Success.objects.all()] == [("math.sqrt", 4.0, 1)]
    assert (OrmQ.objects.count(), Failure.objects.count()) == (0, 0)


def test_a_task_that_fails_is_written_down_and_not_tried_again(transactional_db):
    async_task("math.sqrt", -1)
    do(UPKEEP, *due())
    assert ["math domain error" in row.result for row in Failure.objects.all()] == [True]
    assert (OrmQ.objects.count(), Success.objects.count()) == (0, 0)


def test_a_task_beyond_its_time_is_cut_short(transactional_db):
    async_task("time.sleep", 30, timeout=1)
    began = time.monotonic()
    do(UPKEEP, *due())
    assert time.monotonic() - began < 20
    assert ["exceeded maximum timeout" in row.result for row in Failure.objects.all()] == [True]


def test_what_somebody_else_put_there_is_removed_unread(transactional_db):
    OrmQ.objects.create(key="handrail", payload="not:ours", lock=timezone.now())
    do(UPKEEP, *due())
    assert [model.objects.count() for model in (OrmQ, Success, Failure)] == [0, 0, 0]


def test_a_task_is_given_out_once_until_it_is_due_again(transactional_db):
    async_task("math.sqrt", 16)
    first, second = Queue(), Queue()
    assert first.claim(UPKEEP)[0] == OrmQ.objects.get().pk
    assert second.claim(UPKEEP) is None


def results_of(product, func: str) -> str:
    return product.shell(f"from django_q.models import Task; print(Task.objects.filter(func={func!r}).count())")


@pytest.fixture
def own(new_product):
    product = new_product()
    product.start()
    return product


def test_a_task_that_dies_takes_nothing_with_it(own):
    queue = own.part_pid("queue")
    own.shell("from django_q.tasks import async_task; async_task('os.abort'); async_task('math.sqrt', 4)")
    until(lambda: results_of(own, "math.sqrt") == "1")
    assert own.part_pid("queue") == queue
    assert f"a task ended with {-signal.SIGABRT}" in own.log


def test_a_stop_lets_the_task_that_is_under_way_finish(own, tmp_path):
    queue = own.part_pid("queue")
    script = f"sleep 2; echo done > {tmp_path}/done"
    own.shell(f"from django_q.tasks import async_task; async_task('os.system', {script!r})")
    until(lambda: os.path.exists(f"/proc/{queue}/task/{queue}/children") and children_of(queue))
    assert own.stop() == 0
    assert (tmp_path / "done").read_text() == "done\n"


def children_of(pid: int) -> list[str]:
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        return file.read().split()


def test_a_look_at_notifications_is_due_when_something_new_waits_and_somebody_is_told(bob, ask):
    assert Watch().is_due() is False  # nobody has a device
    watch = Watch()
    Channel.objects.create(user=bob, value=b"", label="ntfy", created_at=timezone.now())
    ask("git push origin main")
    assert watch.is_due() is True
    assert watch.is_due() is False
    ask("git push origin main:other")
    assert watch.is_due() is True


def test_a_look_is_due_for_what_is_to_be_sent_again(bob):
    watch = Watch()
    channel = Channel.objects.create(user=bob, value=b"", label="ntfy", created_at=timezone.now())
    assert watch.is_due() is True  # the first one
    assert watch.is_due() is False
    fields = {"via": "ntfy", "kind": "test", "created_at": timezone.now()}
    Delivery.objects.create(user=bob, channel=channel, next_try_at=timezone.now() - timedelta(seconds=1), **fields)
    assert watch.is_due() is True


def test_a_round_with_nothing_due_is_one_statement(transactional_db):
    Schedule.objects.update(next_run=timezone.now() + timedelta(hours=1))
    queue = Queue()
    with CaptureQueriesContext(connection) as ran:
        assert queue._start_waiting() is False
    assert len([query for query in ran if "clock_timestamp" not in query["sql"]]) == 1


def test_a_task_that_is_queued_is_found_though_nothing_is_due_yet(transactional_db, monkeypatch):
    monkeypatch.setattr(Queue, "_start_next", lambda self, lane: True)
    Schedule.objects.update(next_run=timezone.now() + timedelta(hours=1))
    queue = Queue()
    assert not queue._start_waiting()
    async_task("math.sqrt", 16)
    assert queue._start_waiting()


def test_what_becomes_due_before_the_next_poll_is_awaited_more_closely(transactional_db):
    entry = Schedule.objects.create(func="math.sqrt", args="16", next_run=timezone.now() + timedelta(hours=1))
    queue = Queue()
    assert (queue._start_waiting(), queue._is_soon) == (False, False)
    Schedule.objects.filter(pk=entry.pk).update(next_run=timezone.now() + timedelta(seconds=POLL_INTERVAL * 0.9))
    assert (queue._start_waiting(), queue._is_soon) == (False, True)


def test_an_event_wakes_the_queue(settings, tmp_path):
    settings.HANDRAIL_RUNTIME = tmp_path
    with listening_by_signal() as wakes:
        arrived = []
        before = signal.signal(signal.SIGIO, lambda *_: arrived.append(True))  # whichever thread the system gives it to
        try:
            for times in (1, 2):
                wake_feeds()
                until(lambda times=times: len(arrived) == times)
                empty(wakes)
            time.sleep(0.05)
            assert len(arrived) == 2
        finally:
            signal.signal(signal.SIGIO, before)


def test_a_wake_up_ends_the_pause_and_is_news(transactional_db):
    queue = Queue([])
    before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        queue._pause(0.01)
        assert queue._has_heard is not HEARS_ALL
        signal.pthread_kill(threading.get_ident(), signal.SIGIO)  # a process of pytest-xdist has further threads
        queue._pause(60)
        assert (queue._has_heard, queue.stopping) == (True, False)
        signal.pthread_kill(threading.get_ident(), signal.SIGTERM)
        queue._pause(60)
        assert queue.stopping
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
