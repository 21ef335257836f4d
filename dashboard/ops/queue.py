"""The queue: one process that polls for due tasks of all lanes and runs each in a forked child.

django-q2 stores the tasks, their schedule and their results, and runs a task as usual. The process stands in for one
cluster of it for each lane: those are five processes each, four of which idle. Both may serve a lane at the same time.
"""

import logging
import signal
import time
from collections.abc import Container, Iterable
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from queue import SimpleQueue
from threading import Lock
from types import SimpleNamespace

from django.conf import settings
from django.db import DatabaseError, InterfaceError, connections
from django.utils import timezone
from django_q.brokers import get_broker
from django_q.models import OrmQ
from django_q.monitor import monitor
from django_q.scheduler import scheduler
from django_q.signing import BadSignature, SignedPackage
from django_q.worker import worker

from approvals.models import AapRequest, LogTarget
from approvals.notify.watch import Watch
from dashboard import clock, lanes
from dashboard.lanes import LANES, Lane
from dashboard.ops.forked import Child
from workspaces.services import schedules

logger = logging.getLogger("handrail.queue")
POLL_INTERVAL = 1.0  # seconds
HEARTBEAT_INTERVAL = 5.0  # seconds
SCHEDULE_INTERVAL = 30.0  # seconds
SCHEDULED_RUNS_INTERVAL = 2.0  # seconds between two looks at schedules and their open runs
KILL_GRACE = 30.0  # seconds beyond a task's own timeout, which it enforces itself as long as Python runs in it
STOP_SIGNALS = {signal.SIGINT, signal.SIGTERM}


@dataclass
class Running:
    """A task that runs now in a child."""

    lane: Lane
    child: Child
    until: float  # when it is killed


class Queue:
    """Runs a bounded number of each lane's tasks at a time until SIGINT or SIGTERM; running ones are finished first."""

    def __init__(self, served: Iterable[str] | None = None):
        self.lanes = [LANES[name] for name in (settings.HANDRAIL_LANES if served is None else served)]
        self.stopping = False
        self._running: list[Running] = []
        self._beaten = self._scheduled = self._schedules_looked = float("-inf")
        self._watches = {  # what becomes due without anybody who queues it
            "approvals.tasks.notify": Watch().is_due,
            "approvals.tasks.tell_admins": lambda: LogTarget.objects.due(clock.now()).to_people().exists(),
            "approvals.tasks.run_schedules": self._is_schedule_due,
            "approvals.tasks.send_webhooks": lambda: AapRequest.objects.due(clock.now()).exists(),
            "approvals.tasks.send_log": lambda: LogTarget.objects.due(clock.now()).to_systems().exists(),
        }

    def run(self):
        # `_pause` fetches both with sigtimedwait, so nothing is interrupted.
        signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS | {signal.SIGCHLD})
        while not self.stopping or self._running:
            self._beat()
            self._reap()
            if self.stopping or not self._look():
                self._pause()

    def _pause(self):
        found = signal.sigtimedwait(STOP_SIGNALS | {signal.SIGCHLD}, POLL_INTERVAL)
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

    def _look(self) -> bool:
        """Start what waits and queue what is due; return whether there was anything. Database errors are logged."""
        try:
            self._run_scheduler()
            due = OrmQ.objects.filter(lock__lt=timezone.now()).order_by()
            waiting = set(due.values_list("key", flat=True).distinct())
            started = [lane for lane in self._free() if lane.name in waiting and self._start_next(lane)]
            return bool(self.queue_due(waiting)) or bool(started)
        except (DatabaseError, InterfaceError) as error:
            logger.error("the queue cannot be read: %s", error)
            connections.close_all()
            return False

    def _run_scheduler(self):
        if time.monotonic() - self._scheduled < SCHEDULE_INTERVAL:
            return
        self._scheduled = time.monotonic()
        for lane in self.lanes:
            with lanes.serving(lane):
                scheduler(get_broker(lane.name))

    def _free(self) -> list[Lane]:
        """Return the lanes that this process serves and has a worker left for."""
        return [lane for lane in self.lanes if sum(one.lane is lane for one in self._running) < lane.workers]

    def claim(self, lane: Lane) -> tuple | None:
        """Claim the lane's next due task: (row id, payload) or None."""
        now = timezone.now()
        row = OrmQ.objects.filter(key=lane.name, lock__lt=now).order_by("pk").first()
        if row is None:
            return None
        # Of several processes that serve the lane, ours or django-q2's, only one claims it.
        claimed = OrmQ.objects.filter(pk=row.pk, lock=row.lock).update(lock=now + timedelta(seconds=lane.retry))
        return (row.pk, row.payload) if claimed else None

    def queue_due(self, waiting: Container[str] = ()) -> list[str]:
        """Queue what is due and return it; not into a lane where something waits, so that none piles up."""
        full = {lane.name for lane in self.lanes} - {lane.name for lane in self._free()}
        queued = []
        for task, is_due in self._watches.items():
            lane = lanes.LANE_OF[task]
            if lane not in waiting and lane not in full and is_due():
                lanes.put(task, save=False)
                queued.append(task)
        return queued

    def _is_schedule_due(self) -> bool:
        """Return whether a schedule is due or a run of one open; asks the database at most every few seconds."""
        if time.monotonic() - self._schedules_looked < SCHEDULED_RUNS_INTERVAL:
            return False
        self._schedules_looked = time.monotonic()
        return schedules.is_due(clock.now())

    def _start_next(self, lane: Lane) -> bool:
        task = self.claim(lane)
        if task is None:
            return False
        connections.close_all()  # a child must not inherit an open connection
        child = Child("task", partial(do, lane, *task))
        self._running.append(Running(lane, child, time.monotonic() + lane.timeout + KILL_GRACE))
        return True

    def _reap(self):
        """Let go of the tasks that have ended, and kill those that do not end in time."""
        for one in list(self._running):
            if one.child.has_ended():
                self._running.remove(one)
                if status := one.child.wait():
                    logger.error("a task ended with %s in the lane %s and will be retried", status, one.lane.name)
            elif time.monotonic() > one.until:
                one.child.send_signal(signal.SIGKILL)


def do(lane: Lane, pk: int, payload: str):
    """Run one task of the lane and store its result, with django-q2's own worker and monitor in turn."""
    with lanes.serving(lane):
        broker = get_broker(lane.name)
        try:
            task = SignedPackage.loads(payload)
        except (TypeError, BadSignature):
            logger.exception("a task in the queue has a wrong signature and is removed")
            broker.fail(pk)
            return
        tasks, results = SimpleQueue(), SimpleQueue()
        for item in (task | {"cluster": lane.name, "ack_id": pk}, "STOP"):
            tasks.put(item)
        timer = SimpleNamespace(value=-1, get_lock=Lock)  # not used: `_reap` enforces the timeout
        worker(tasks, results, timer, lane.timeout)
        results.put("STOP")
        monitor(results, broker)
