"""Runs: the periods in which a workspace was up."""

import uuid
from datetime import datetime

from django.db import models
from django.db.models import Q

from dashboard.database import clock
from workspaces.drivers import capabilities
from workspaces.models.operations import Operation
from workspaces.models.runners import Runner
from workspaces.models.workspaces import Workspace


class EndCode(models.TextChoices):
    """Why a Run ended; the labels are the default end reasons."""

    PAUSED = "paused", "paused"
    STOPPED = "stopped", "stopped"
    ARCHIVED = "archived", "archived"
    TRASHED = "trashed", "deleted"
    REBUILT = "rebuilt", "rebuilt"
    MOVED = "moved", "moved"
    NOT_STARTED = "not_started", "Could not be started."
    NEVER_UP = "never_up", "It never started."
    RUNNER_STOPPED = "runner_stopped", "The runner stopped while it was starting."
    RESTORED = "restored", "The database was restored to a time before it."
    # Ended without a request; the codes of drivers.base.Ended.
    OUT_OF_MEMORY = "out_of_memory", "out of memory"
    HOST_RESTARTED = "host_restarted", "the host restarted"
    CRASHED = "crashed", "its first process was killed or crashed"
    BACKEND_LOST = "backend_lost", "the engine that it depends on was stopped"
    REMOVED = "removed", "its container was removed by somebody else"
    UNSEEN = "unseen", "It had exited."
    LOST = "lost", "nothing is left of what ran"
    UNKNOWN = "unknown", "its driver cannot tell why"


class RunQuerySet(models.QuerySet):
    def end(self, code: EndCode, words: str = "", *, memory_kept: bool = False) -> int:
        """Mark these runs as ended now, with the reason `words` or the code's label; return their number."""
        reason = (words or code.label)[:200]
        RunLead.objects.filter(run__in=self).delete()
        ProgramLead.objects.filter(run__in=self).delete()
        return self.update(ended_at=clock.now(), end_code=code, end_reason=reason, memory_kept=memory_kept)

    def forget_memory(self, workspace_id):
        """Note that no memory of this workspace is kept any more."""
        self.filter(workspace=workspace_id, memory_kept=True).update(memory_kept=False)

    def spans(self, team_id, since: datetime, until: datetime) -> list[tuple]:
        """Return (environment id, begin, end) of the times in which workspaces of the team were up, cut to a period.

        A run that has not ended is up until now. Connected folders are left out: they are always up and cost nothing.
        """
        until = min(until, clock.now())
        runs = self.filter(Q(ended_at=None) | Q(ended_at__gt=since), workspace__team=team_id, started_at__lt=until)
        rows = runs.exclude(workspace__environment__driver__in=capabilities.drivers_with(own_folder=True))
        found = rows.values_list("workspace__environment", "started_at", "ended_at")
        return [(environment, max(begin, since), min(end or until, until)) for environment, begin, end in found]


class Run(models.Model):
    """A period in which a workspace was up."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    workspace = models.ForeignKey(Workspace, models.CASCADE, related_name="runs")
    runner = models.ForeignKey(Runner, models.PROTECT, related_name="+")
    epoch = models.PositiveIntegerField(default=0)
    lead_epoch = models.PositiveBigIntegerField(default=0)  # of its workspace when it began
    owner = models.JSONField(default=dict)  # the driver's record: host, boot id, pid, start time
    started_at = models.DateTimeField()
    ready_at = models.DateTimeField(null=True, blank=True)
    ended_at = models.DateTimeField(null=True, blank=True)
    end_reason = models.CharField(max_length=200, blank=True)  # as a message
    end_code = models.CharField(max_length=16, choices=EndCode, blank=True)
    dismissed_at = models.DateTimeField(null=True, blank=True)  # when a person put away that it ended by itself
    stopped_services = models.JSONField(default=list, blank=True)  # names of those that a person stopped
    memory_kept = models.BooleanField(default=False)  # its programs continue at the next resume
    cold = models.BooleanField(default=True)
    setup_seconds = models.FloatField(null=True, blank=True)
    first_useful_at = models.DateTimeField(null=True, blank=True)
    proof_entries = models.PositiveIntegerField(null=True, blank=True)
    proof_differ = models.PositiveIntegerField(null=True, blank=True)
    network = models.CharField(max_length=300, blank=True)  # why its programs cannot reach the proxy, as a message

    # Ports of a connected folder's box that are reached from this host: [{port, host_port}].
    forwarded = models.JSONField(default=list, blank=True)
    closed_ports = models.JSONField(default=list, blank=True)  # no longer forwarded, since a person closed them

    objects = RunQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["workspace"], condition=Q(ended_at=None), name="run_one_open"),
        ]
        indexes = [models.Index(fields=["workspace", "started_at"], name="run_by_time")]

    def __str__(self):
        return f"run of {self.workspace_id} from {self.started_at}"

    @property
    def ready_after_s(self) -> float | None:
        return (self.ready_at - self.started_at).total_seconds() if self.ready_at else None

    @property
    def useful_after_s(self) -> float | None:
        """Seconds from the start of the run to the end of the first command that succeeded."""
        return (self.first_useful_at - self.started_at).total_seconds() if self.first_useful_at else None


class RunLead(models.Model):
    """What another host needs to take over a Run that lives on when its own is lost (workspaces/host/run_leads.py)."""

    run = models.OneToOneField(Run, models.CASCADE, primary_key=True, related_name="lead")
    value = models.BinaryField()  # encrypted with the key ring

    def __str__(self):
        return f"lead of the {self.run}"


class ProgramLead(models.Model):
    """What another host needs to go on with a program when its own is lost (workspaces/host/program_leads.py)."""

    operation = models.OneToOneField(Operation, models.CASCADE, primary_key=True, related_name="lead")
    run = models.ForeignKey(Run, models.CASCADE, related_name="programs")
    waits = models.BooleanField(default=False)  # its host is lost, and no other one has gone on with it yet
    value = models.BinaryField()  # encrypted with the key ring

    def __str__(self):
        return f"lead of the program {self.operation_id}"
