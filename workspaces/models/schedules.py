"""Schedules: jobs that start at times that a cron text gives, and each of their runs."""

import uuid

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy

from dashboard.database.row_locks import LockingQuerySet
from dashboard.models import Team
from workspaces.models.of_team import OfTeamQuerySet
from workspaces.models.operations import Operation
from workspaces.models.programs import Command
from workspaces.models.workspaces import Workspace


class JobKind(models.TextChoices):
    """What a schedule runs. A further kind gets a value here and a branch in services/schedules/jobs.py."""

    COMMAND = "command", gettext_lazy("A command")
    CHECK = "check", gettext_lazy("A check of the environment")
    AGENT = "agent", gettext_lazy("An agent with a task")


class CatchUp(models.TextChoices):
    """What happens with times at which Handrail did not run."""

    SKIP = "skip", gettext_lazy("Skip them")
    ONCE = "once", gettext_lazy("Run once, as soon as Handrail runs again")


class ScheduledState(models.TextChoices):
    WAITING = "waiting", gettext_lazy("Starting")
    RUNNING = "running", gettext_lazy("Running")
    PASSED = "passed", gettext_lazy("Passed")
    FAILED = "failed", gettext_lazy("Failed")
    STOPPED = "stopped", gettext_lazy("Stopped by a person")
    UNCLEAR = "unclear", gettext_lazy("Outcome unknown")
    NOT_STARTED = "not_started", gettext_lazy("Could not start")
    SKIPPED = "skipped", gettext_lazy("Skipped")


OPEN_STATES = (ScheduledState.WAITING, ScheduledState.RUNNING)
FAILING_STATES = (ScheduledState.FAILED, ScheduledState.UNCLEAR, ScheduledState.NOT_STARTED)


class ScheduleQuerySet(OfTeamQuerySet):
    def visible_to(self, who):
        """Schedules of the person's teams; an agent sees those of its own workspaces."""
        rows = super().visible_to(who)
        return rows if who.is_person else rows.filter(workspace__in=Workspace.objects.visible_to(who))

    def due(self, now):
        return self.filter(paused_at=None, next_due_at__lte=now, team__archived_at=None)


class Schedule(models.Model):
    """A job, the times at which it starts, and where it runs: in one workspace, or in a new one for each run.

    It runs with the permissions of its owner: whoever saved it last.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    team = models.ForeignKey(Team, models.CASCADE, related_name="schedules")
    name = models.CharField(max_length=80)
    cron = models.CharField(max_length=120)  # five fields, read in `zone`
    zone = models.CharField(max_length=64, default="UTC")
    kind = models.CharField(max_length=16, choices=JobKind)
    command = models.TextField(blank=True)  # of a command; bash runs it
    check_name = models.CharField(max_length=80, blank=True)  # of a check
    # Of an agent: {program, model, task, budget_tokens, budget_cost}
    agent_job = models.JSONField(default=dict, blank=True)
    workspace = models.ForeignKey(Workspace, models.CASCADE, null=True, blank=True, related_name="schedules")
    environment = models.CharField(max_length=80, blank=True)  # the name of the environment of new workspaces
    catch_up = models.CharField(max_length=8, choices=CatchUp, default=CatchUp.SKIP)
    budget_minutes = models.PositiveIntegerField(null=True, blank=True)  # after which a person is asked
    keep = models.PositiveSmallIntegerField(default=100)  # runs in the history; older ones are deleted
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, models.SET_NULL, null=True, blank=True, related_name="+")
    paused_at = models.DateTimeField(null=True, blank=True)
    next_due_at = models.DateTimeField(null=True, blank=True)
    created_at = models.DateTimeField()

    objects = ScheduleQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["team", "name"], name="schedule_name_once"),
            models.CheckConstraint(
                condition=Q(workspace=None) ^ Q(environment=""), name="schedule_in_workspace_or_environment"
            ),
            models.CheckConstraint(condition=Q(kind__in=JobKind.values), name="schedule_kind_known"),
        ]
        indexes = [models.Index(fields=["next_due_at"], name="schedule_by_due")]

    def __str__(self):
        return self.name

    @property
    def job(self) -> str:
        """What it runs, for display: the command, the name of the check, or the task of the agent."""
        if self.kind == JobKind.AGENT:
            return f"{self.agent_job['program']}: {self.agent_job['task']}"
        return self.check_name if self.kind == JobKind.CHECK else self.command


class ScheduledRun(models.Model):
    """One run of a schedule. No schedule has two for one due time, or two that are open."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    schedule = models.ForeignKey(Schedule, models.CASCADE, related_name="runs")
    due_at = models.DateTimeField()
    # Who started it outside its times; None: its time came.
    asked_by = models.ForeignKey(settings.AUTH_USER_MODEL, models.SET_NULL, null=True, blank=True, related_name="+")
    by_hand = models.BooleanField(default=False)
    state = models.CharField(max_length=16, choices=ScheduledState, default=ScheduledState.WAITING)
    reason = models.TextField(blank=True)  # why it did not start, or its outcome is unknown, as a message
    workspace = models.ForeignKey(Workspace, models.SET_NULL, null=True, blank=True, related_name="+")
    preparing = models.ForeignKey(Operation, models.SET_NULL, null=True, blank=True, related_name="+")  # a resume
    command = models.OneToOneField(Command, models.SET_NULL, null=True, blank=True, related_name="scheduled_run")
    started_at = models.DateTimeField(null=True, blank=True)
    ended_at = models.DateTimeField(null=True, blank=True)
    exit_status = models.IntegerField(null=True, blank=True)
    output_bytes = models.PositiveBigIntegerField(default=0)
    output_sha256 = models.CharField(max_length=64, blank=True)
    budget_until = models.DateTimeField(null=True, blank=True)  # when a person is asked, next or last
    budget_asked_at = models.DateTimeField(null=True, blank=True)  # since when a person is asked; None: nobody is
    untold = models.CharField(max_length=8, blank=True)  # what the owner has to be told of: failed, budget

    objects = LockingQuerySet.as_manager()

    class Meta:
        ordering = ["-due_at"]
        constraints = [
            models.UniqueConstraint(fields=["schedule", "due_at"], name="scheduled_run_once"),
            models.UniqueConstraint(
                fields=["schedule"], condition=Q(state__in=["waiting", "running"]), name="scheduled_run_one_at_a_time"
            ),
            models.CheckConstraint(condition=Q(state__in=ScheduledState.values), name="scheduled_run_state_known"),
        ]
        indexes = [
            models.Index(fields=["state"], condition=Q(state__in=["waiting", "running"]), name="scheduled_run_open"),
            models.Index(fields=["untold"], condition=~Q(untold=""), name="scheduled_run_untold"),
        ]

    def __str__(self):
        return f"{self.schedule} at {self.due_at:%Y-%m-%d %H:%M}"

    @property
    def is_open(self) -> bool:
        return self.state in OPEN_STATES

    @property
    def seconds(self) -> float | None:
        if self.started_at is None or self.ended_at is None:
            return None
        return (self.ended_at - self.started_at).total_seconds()
