"""The lanes of work behind the scenes: which task goes where, and how late each lane is.

A lane is a cluster of django-q2 with a name of its own: a queue, workers and time limits, which settings.Q_CLUSTER has.
`make up` serves all of them; `manage.py qcluster -n LANE` serves one, on any host of the same database.
"""

from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta

from django.conf import settings
from django.db import transaction
from django.db.models import Min
from django_q.conf import Conf
from django_q.models import OrmQ, Schedule
from django_q.tasks import async_task

from dashboard.database import clock
from dashboard.workers.wakes import wake_feeds

UPKEEP = settings.Q_CLUSTER["name"]  # also what becomes of a schedule that names no lane
PUSH, WEBHOOKS, LOGS, HOSTS, TIMELY = settings.Q_CLUSTER["ALT_CLUSTERS"]
# dotted path: its lane. Every task of the code is here; a test compares it with all that is queued and scheduled.
LANE_OF = {
    "approvals.tasks.notify": PUSH,
    "approvals.tasks.tell_admins": PUSH,
    "approvals.tasks.send_webhooks": WEBHOOKS,
    "approvals.tasks.send_log": LOGS,
    "approvals.tasks.follow_code_hosts": HOSTS,
    "dashboard.event_log.witness.stamp_all": WEBHOOKS,
    "approvals.tasks.run_schedules": TIMELY,
    "approvals.tasks.warn_owners": TIMELY,
    "dashboard.event_log.checkpoints.sign_all": TIMELY,
    "workspaces.tasks.check_caps": TIMELY,
    "workspaces.tasks.warn_of_secrets": TIMELY,
    "workspaces.tasks.check_sweeps": TIMELY,
    "approvals.tasks.forget_notifications": UPKEEP,
    "dashboard.ops.scheduled_backups.start_if_due": UPKEEP,
    "dashboard.ops.tasks.copy_database": UPKEEP,
    "dashboard.people.sessions.forget_expired": UPKEEP,
    "workspaces.tasks.collect_garbage": UPKEEP,
    "workspaces.tasks.sweep_retention": UPKEEP,
    "workspaces.tasks.verify_stores": UPKEEP,
}
LOOKED_AT = timedelta(seconds=60)  # a schedule that is due is queued within this time


@dataclass(frozen=True)
class Lane:
    """One lane, with its limits in seconds."""

    name: str
    workers: int  # at most so many of its tasks run at a time in one process that serves it
    timeout: int  # a task is ended after it
    retry: int  # a task whose process was killed is due again after it

    @property
    def patience(self) -> int:
        """After so many seconds of waiting a task is late: one before it may have taken all of its time."""
        return self.timeout + 30


def _lane(name: str) -> Lane:
    own = settings.Q_CLUSTER | settings.Q_CLUSTER["ALT_CLUSTERS"].get(name, {})
    return Lane(name, own["workers"], own["timeout"], own["retry"])


LANES = {name: _lane(name) for name in (PUSH, TIMELY, WEBHOOKS, HOSTS, LOGS, UPKEEP)}


def queue_task(task: str, **options):
    """Queue a task of the table in its lane, and wake the queue of this host."""
    name = async_task(task, cluster=LANE_OF[task], **options)
    transaction.on_commit(wake_feeds)
    return name


@contextmanager
def serving(lane: Lane):
    """Let django-q2's own functions take this process for one that serves the lane: it reads its settings once."""
    before = Conf.CLUSTER_NAME, Conf.TIMEOUT, Conf.RETRY
    Conf.CLUSTER_NAME, Conf.TIMEOUT, Conf.RETRY = lane.name, lane.timeout, lane.retry
    try:
        yield
    finally:
        Conf.CLUSTER_NAME, Conf.TIMEOUT, Conf.RETRY = before


def waiting() -> dict[str, float]:
    """Return for each lane for how many seconds its oldest due task has waited for a worker; 0 if none waits."""
    now = clock.now()
    queued = OrmQ.objects.filter(lock__lte=now).order_by().values_list("key").annotate(Min("lock"))
    planned = Schedule.objects.filter(next_run__lte=now - LOOKED_AT).exclude(repeats=0)
    planned = planned.order_by().values_list("cluster").annotate(Min("next_run"))
    found = dict.fromkeys(LANES, 0.0)
    for name, since in [*queued, *planned]:
        name = name or UPKEEP
        found[name] = max(found.get(name, 0.0), (now - since).total_seconds())
    return found
