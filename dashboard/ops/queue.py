"""The queue: one process that polls for due tasks and runs each in a forked child.

django-q2 stores the tasks, their schedule and their results, and runs a task as usual. Only its cluster is replaced:
that is five processes, four of which idle.
"""

import logging
import signal
import time
from functools import partial
from queue import SimpleQueue
from threading import Lock
from types import SimpleNamespace

from django.conf import settings
from django.db import DatabaseError, InterfaceError, connections
from django.utils import timezone
from django_q.brokers import get_broker
from django_q.conf import Conf
from django_q.models import OrmQ
from django_q.monitor import monitor
from django_q.scheduler import scheduler
from django_q.signing import BadSignature, SignedPackage
from django_q.tasks import async_task
from django_q.worker import worker

from approvals.models import AapRequest, LogTarget
from approvals.notify.watch import Watch
from dashboard import clock
from dashboard.ops.forked import Child
from workspaces.services import schedules

logger = logging.getLogger("handrail.queue")
POLL_INTERVAL = 1.0  # seconds
HEARTBEAT_INTERVAL = 5.0  # seconds
SCHEDULE_INTERVAL = 30.0  # seconds
SCHEDULED_RUNS_INTERVAL = 2.0  # seconds between two looks at schedules and their open runs
KILL_GRACE = 30.0  # seconds beyond a task's own timeout, which it enforces itself as long as Python runs in it
STOP_SIGNALS = {signal.SIGINT, signal.SIGTERM}


class Queue:
    """Runs one task at a time until SIGINT or SIGTERM; a running task is finished first."""

    def __init__(self):
        self.broker = get_broker()
        self.stopping = False
        self._notices = Watch()
        self._beaten = self._scheduled = self._schedules_looked = float("-inf")

    def run(self):
        # `_pause` fetches both with sigtimedwait, so nothing is interrupted.
        signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS | {signal.SIGCHLD})
        while not self.stopping:
            self._beat()
            task = self._next()
            if task:
                self._run_task(*task)
            elif not (self._run_schedules() or self._notify() or self._send_log() or self._send_webhooks()):
                self._pause(STOP_SIGNALS)

    def _pause(self, numbers: set):
        found = signal.sigtimedwait(numbers, POLL_INTERVAL)
        if found and found.si_signo in STOP_SIGNALS:
            self.stopping = True

    def _beat(self):
        """Touch the heartbeat file that the supervisor watches."""
        if time.monotonic() - self._beaten < HEARTBEAT_INTERVAL:
            return
        self._beaten = time.monotonic()
        try:
            (settings.HANDRAIL_RUNTIME / "heartbeat" / "queue").touch()
        except OSError:
            pass  # no supervisor made the folder, so nobody watches it

    def _next(self) -> tuple | None:
        """Claim the next due task: (row id, payload) or None. A database error is logged and tried again later."""
        try:
            if time.monotonic() - self._scheduled >= SCHEDULE_INTERVAL:
                self._scheduled = time.monotonic()
                scheduler(self.broker)
            now = timezone.now()
            row = OrmQ.objects.filter(key=self.broker.list_key, lock__lt=now).order_by("pk").first()
            if row is None:
                return None
            # Of several hosts that share a database only one claims it.
            mine = OrmQ.objects.filter(pk=row.pk, lock=row.lock).update(lock=self.broker.timeout(row))
            return (row.pk, row.payload) if mine else None
        except (DatabaseError, InterfaceError) as error:
            logger.error("the queue cannot be read: %s", error)
            connections.close_all()
            return None

    def _run_schedules(self) -> bool:
        """Queue the task that starts and follows scheduled runs, if one is due or open; at most every few seconds."""
        if time.monotonic() - self._schedules_looked < SCHEDULED_RUNS_INTERVAL:
            return False
        self._schedules_looked = time.monotonic()
        return self._queue_if_due(lambda: schedules.is_due(clock.now()), "approvals.tasks.run_schedules")

    def _notify(self) -> bool:
        """Queue the task that sends notifications, if one is due; only an idle queue does, so that none piles up."""
        return self._queue_if_due(self._notices.is_due, "approvals.tasks.notify")

    def _send_log(self) -> bool:
        """Queue the task that sends logs to their targets, if one is due."""
        return self._queue_if_due(LogTarget.objects.due(timezone.now()).exists, "approvals.tasks.send_log")

    def _send_webhooks(self) -> bool:
        """Queue the task that sends webhooks to agents' receivers, if any is due."""
        return self._queue_if_due(AapRequest.objects.due(timezone.now()).exists, "approvals.tasks.send_webhooks")

    def _queue_if_due(self, is_due, task: str) -> bool:
        try:
            due = is_due()
            if due:
                async_task(task, save=False)
            return due
        except (DatabaseError, InterfaceError) as error:
            logger.error("%s cannot be queued: %s", task, error)
            connections.close_all()
            return False

    def _run_task(self, pk: int, payload: str):
        connections.close_all()  # a child must not inherit an open connection
        child = Child("task", partial(do, pk, payload))
        until = time.monotonic() + Conf.TIMEOUT + KILL_GRACE
        while not child.has_ended():
            self._beat()
            if time.monotonic() > until:
                child.send_signal(signal.SIGKILL)
            self._pause(STOP_SIGNALS | {signal.SIGCHLD})
        if status := child.wait():
            logger.error("a task ended with %s and will be retried", status)


def do(pk: int, payload: str):
    """Run one task and store its result, with django-q2's own worker and monitor in turn."""
    broker = get_broker()
    try:
        task = SignedPackage.loads(payload)
    except (TypeError, BadSignature):
        logger.exception("a task in the queue has a wrong signature and is removed")
        broker.fail(pk)
        return
    tasks, results = SimpleQueue(), SimpleQueue()
    for item in (task | {"cluster": Conf.CLUSTER_NAME, "ack_id": pk}, "STOP"):
        tasks.put(item)
    timer = SimpleNamespace(value=-1, get_lock=Lock)  # not used: `_run_task` enforces the timeout
    worker(tasks, results, timer, Conf.TIMEOUT)
    results.put("STOP")
    monitor(results, broker)
