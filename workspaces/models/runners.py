"""The daemons that carry out operations, one for each host."""

import uuid
from datetime import timedelta

from django.db import models

from dashboard.database import clock
from dashboard.database.row_locks import LockingQuerySet

RUNNER_TIMEOUT = timedelta(seconds=30)  # runners write a heartbeat at least every ten seconds
PARTS = ("web", "runner", "queue")  # of `make up`


class RunnerQuerySet(LockingQuerySet):
    def alive(self):
        """Runners with a recent heartbeat. The others are not running, or their host is unreachable."""
        return self.filter(heartbeat_at__gt=clock.now() - RUNNER_TIMEOUT)

    def members(self):
        """Hosts that were not removed."""
        return self.filter(removed_at=None)


class Runner(models.Model):
    """One host: its runner, the drivers available there, and the other parts that run on it.

    A host without a runner (HANDRAIL_PARTS) has a row too; `heartbeat_at` stays empty there.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    host = models.CharField(max_length=120, unique=True)
    boot_id = models.CharField(max_length=64, blank=True)
    pid = models.IntegerField(default=0)
    heartbeat_at = models.DateTimeField(null=True, blank=True)  # of the runner
    web_at = models.DateTimeField(null=True, blank=True)  # the heartbeats of the other parts; only on PostgreSQL,
    queue_at = models.DateTimeField(null=True, blank=True)  # where other hosts ask for them
    version = models.CharField(max_length=32, blank=True)
    installation = models.CharField(max_length=64, blank=True)  # the id in its HANDRAIL_HOME (identity.py)
    home = models.CharField(max_length=400, blank=True)  # that HANDRAIL_HOME
    keys = models.JSONField(default=dict, blank=True)  # {key: [fingerprint, newest first]} (same_keys.py)
    address = models.CharField(max_length=255, blank=True)  # host:port at which webs reach it; "" is its socket alone
    parts = models.JSONField(default=list, blank=True)  # what runs there: web, runner, queue
    draining_at = models.DateTimeField(null=True, blank=True)  # since when it gets no new workspaces
    lost_at = models.DateTimeField(
        null=True, blank=True
    )  # when it was declared lost, so that others lead its workspaces
    removed_at = models.DateTimeField(null=True, blank=True)  # when it ceased to be a member; runs of the past name it
    # What it may promise to workspaces: {runs, memory_bytes, cpus, is_short_of_disk} (provisioning/capacity.py).
    room = models.JSONField(default=dict, blank=True)
    unclear = models.JSONField(default=list, blank=True)  # messages about sandboxes and programs of unknown owner
    capabilities = models.JSONField(
        default=dict
    )  # {driver: {available, isolation, reason, what_to_do, notes, limits, envelope}}

    objects = RunnerQuerySet.as_manager()

    def __str__(self):
        return self.host

    @property
    def is_alive(self) -> bool:
        """Like `Runner.objects.alive()`, for a loaded row."""
        return _is_recent(self.heartbeat_at)

    def runs(self, part: str) -> bool:
        """Return whether the host is set up to run this part; one that never said so runs all."""
        return not self.parts or part in self.parts

    def heard(self) -> dict:
        """Return {part: its last heartbeat or None} of the parts that the host is set up to run."""
        at = {"web": self.web_at, "runner": self.heartbeat_at, "queue": self.queue_at}
        return {part: at[part] for part in PARTS if self.runs(part)}

    @property
    def heard_at(self):
        """When any part of the host was last heard of; None if none was since its start."""
        return max((at for at in self.heard().values() if at is not None), default=None)

    @property
    def answers(self) -> bool:
        """Return whether any part of the host was heard of lately."""
        return _is_recent(self.heard_at)


def _is_recent(moment) -> bool:
    return moment is not None and moment > clock.now() - RUNNER_TIMEOUT
