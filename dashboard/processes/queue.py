"""The queue: one process that looks for due tasks of all lanes and runs each in a forked child.

It looks after each event of this host, which wakes it, when something becomes due, and every POLL_INTERVAL seconds.

django-q2 stores the tasks, their schedule and their results, and runs a task as usual. The process stands in for one
cluster of it for each lane: those are five processes each, four of which idle. Both may serve a lane at the same time.
"""

import logging
import signal
import time
from collections import defaultdict
from collections.abc import Container, Iterable
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from queue import SimpleQueue
from threading import Lock
from types import SimpleNamespace

from django.conf import settings
from django.db import DatabaseError, InterfaceError, connection, connections
from django.db.models import Q, QuerySet
from django.utils import timezone
from django_q.brokers import get_broker
from django_q.models import OrmQ, Schedule
from django_q.monitor import monitor
from django_q.scheduler import scheduler
from django_q.signing import BadSignature, SignedPackage
from django_q.worker import worker

from approvals.agent_runs.code_host import following as code_hosts
from approvals.models import AapRequest, HostedRepository, LogTarget, TaskThread
from approvals.notify.watch import Watch
from dashboard.database import clock
from dashboard.database.one_statement import exist
from dashboard.processes.forked import Child
from dashboard.workers import lanes
from dashboard.workers.lanes import LANES, Lane
from dashboard.workers.wakes import empty, listening_by_signal
from workspaces.host import parts
from workspaces.services import schedules

logger = logging.getLogger("handrail.queue")
# A database file serves one host, whose events wake the queue; a server may have other hosts, whose events do not.
HEARS_ALL = connection.vendor == "sqlite"
POLL_INTERVAL = 5.0 if HEARS_ALL else 1.0  # seconds between two looks without a wake-up
SOON_INTERVAL = 1.0  # seconds between two looks while something is due before the next poll
WAKE_INTERVAL = 0.2  # seconds from one look to the next after a wake-up, so that many events are one
HEARTBEAT_INTERVAL = 5.0  # seconds
NOTIFY = "approvals.tasks.notify"
KILL_GRACE = 30.0  # seconds beyond a task's own timeout, which it enforces itself as long as Python runs in it
STOP_SIGNALS = {signal.SIGINT, signal.SIGTERM}
SIGNALS = STOP_SIGNALS | {signal.SIGCHLD, signal.SIGIO}


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
        self._beaten = float("-inf")
        self._is_soon, self._has_heard = False, True
        self._notices = Watch()
        # What becomes due without anybody who queues it: querysets that have a row then, given the time.
        self._watches = {
            NOTIFY: self._notices.questions,
            "approvals.tasks.tell_admins": lambda now: [LogTarget.objects.due(now).to_people()],
            "approvals.tasks.run_schedules": schedules.due,
            "approvals.tasks.follow_code_hosts": lambda now: [
                HostedRepository.objects.due(now),
                TaskThread.objects.due(now),
                code_hosts.unthreaded(),
            ],
            "approvals.tasks.send_webhooks": lambda now: [AapRequest.objects.due(now)],
            "approvals.tasks.send_log": lambda now: [LogTarget.objects.due(now).to_systems()],
        }

    def run(self):
        # `_pause` fetches them with sigtimedwait, so nothing is interrupted.
        signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        with listening_by_signal() as wakes:
            while not self.stopping or self._running:
                self._beat()
                self._reap()
                if self.stopping or not self._start_waiting():
                    self._pause(SOON_INTERVAL if self._is_soon else POLL_INTERVAL)
                    empty(wakes)

    def _pause(self, seconds: float):
        """Wait until a task has ended, a wake-up, a signal to stop, or the time is over."""
        found = signal.sigtimedwait(SIGNALS, seconds)
        self._has_heard = not HEARS_ALL or bool(found and found.si_signo == signal.SIGIO)
        if found and found.si_signo == signal.SIGIO:
            found = signal.sigtimedwait(SIGNALS - {signal.SIGIO}, WAKE_INTERVAL)
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
        with suppress(DatabaseError, InterfaceError):  # said by the next look at the queue
            parts.beat("queue")

    def _start_waiting(self) -> bool:
        """Start what waits and queue what is due; return whether there was anything. Database errors are logged."""
        self._is_soon = False
        try:
            self._is_soon = any(exist(*self._soon(clock.now() + timedelta(seconds=POLL_INTERVAL))))
            return self._is_soon and self._start_due()
        except (DatabaseError, InterfaceError) as error:
            logger.error("the queue cannot be read: %s", error)
            connections.close_all()
            return False

    def _soon(self, moment) -> list[QuerySet]:
        """Return what has a row if something may have to be done at this moment."""
        deliveries, *told = self._watches[NOTIFY](moment)
        watched = [rows for task, due in self._watches.items() if task != NOTIFY for rows in due(moment)]
        news = told if self._has_heard or self._notices.is_late else []
        return [*watched, deliveries, *news, *self._queued(moment), schedules.open_runs()]

    def _queued(self, moment) -> tuple[QuerySet, QuerySet]:
        """Return the tasks, and the entries of the schedule, that are due in the lanes that this process serves."""
        names = [lane.name for lane in self.lanes]
        planned = Schedule.objects.filter(Q(cluster__in=names) | Q(cluster=None), next_run__lt=moment)
        return OrmQ.objects.filter(key__in=names, lock__lt=moment), planned.exclude(repeats=0)

    def _start_due(self) -> bool:
        queued, planned = self._queued(timezone.now())
        if planned.exists():
            self._run_scheduler()
        waiting = set(queued.order_by().values_list("key", flat=True).distinct())
        started = [lane for lane in self._free() if lane.name in waiting and self._start_next(lane)]
        return bool(self.queue_due(waiting)) or bool(started)

    def _run_scheduler(self):
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
        queued, now = [], clock.now()
        open_lanes = {task: lane for task in self._watches if (lane := lanes.LANE_OF[task]) not in {*waiting, *full}}
        asked = [(task, rows) for task in open_lanes for rows in self._watches[task](now)]
        answers = defaultdict(list)
        for (task, _), found in zip(asked, exist(*(rows for _, rows in asked)), strict=True):
            answers[task].append(found)
        for task, found in answers.items():
            if self._notices.is_due(found) if task == NOTIFY else any(found):
                lanes.queue_task(task, save=False)
                queued.append(task)
        return queued

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
