"""Agents that Handrail starts in workspaces: runs, their turns, and what they asked models for."""

import uuid

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy

from approvals.models.agent_definitions import AgentDefinition
from approvals.models.conversations import AgentSession
from dashboard.models import Agent, Team
from workspaces import extensions
from workspaces.models import Command, OfTeamQuerySet, Operation, ScheduledRun, Snapshot, Workspace


class AgentRunState(models.TextChoices):
    STARTING = "starting", gettext_lazy("Starting")  # its workspace comes up, or its program is queued
    WORKING = "working", gettext_lazy("Working")
    ASKS = "asks", gettext_lazy("Asks for more budget")
    DONE = "done", gettext_lazy("To review")  # its last turn ended with an answer
    STOPPED = "stopped", gettext_lazy("Stopped by a person")
    INTERRUPTED = "interrupted", gettext_lazy("Interrupted: its workspace ended")
    FAILED = "failed", gettext_lazy("Failed")
    ACCEPTED = "accepted", gettext_lazy("Accepted")
    DISCARDED = "discarded", gettext_lazy("Discarded")


OPEN_RUNS = (AgentRunState.STARTING, AgentRunState.WORKING)
CLOSED_RUNS = (AgentRunState.ACCEPTED, AgentRunState.DISCARDED)


class TurnKind(models.TextChoices):
    TASK = "task", gettext_lazy("Task")
    MESSAGE = "message", gettext_lazy("Message")
    GO_ON = "go_on", gettext_lazy("Continue")


class TurnEnd(models.TextChoices):
    ANSWERED = "answered", gettext_lazy("Answered")
    FAILED = "failed", gettext_lazy("Failed")
    CRASHED = "crashed", gettext_lazy("Its program ended without an answer")
    LOST = "lost", gettext_lazy("Ended by a crash of the host or the workspace")
    ENDED = "ended", gettext_lazy("Its workspace was paused or stopped")
    STOPPED = "stopped", gettext_lazy("Stopped by a person")
    BUDGET = "budget", gettext_lazy("Budget reached")


class AgentRunQuerySet(OfTeamQuerySet):
    def visible_to(self, who):
        """Return the runs of the person's teams; an agent sees those in its own workspaces."""
        rows = super().visible_to(who)
        return rows if who.is_person else rows.filter(workspace__in=Workspace.objects.visible_to(who))

    def to_see_to(self):
        """Return the runs that wait for a person, the newest first; trials wait for nobody."""
        waits = (AgentRunState.DONE, AgentRunState.ASKS, AgentRunState.FAILED, AgentRunState.INTERRUPTED)
        return self.work().filter(state__in=waits).order_by("-changed_at")

    def work(self):
        """Return the runs that people want something of: all but trials."""
        return self.filter(trial=None)


class AgentRun(models.Model):
    """An agent with a task in a workspace. Each turn is one start of its program, which goes on in one session."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    team = models.ForeignKey(Team, models.CASCADE, related_name="+")
    workspace = models.ForeignKey(Workspace, models.CASCADE, related_name="agent_runs")
    agent = models.ForeignKey(
        Agent, models.CASCADE, related_name="+"
    )  # the agent that its tool calls are attributed to
    program = models.CharField(max_length=60)  # NAME@VERSION
    model = models.CharField(max_length=100)
    task = models.TextField()
    definition = models.ForeignKey(AgentDefinition, models.SET_NULL, null=True, blank=True, related_name="runs")
    ticket_url = models.CharField(max_length=500, blank=True)
    session = models.ForeignKey(AgentSession, models.SET_NULL, null=True, blank=True, related_name="runs")
    native_id = models.CharField(max_length=200, blank=True)  # of the session; "" until the program told it
    state = models.CharField(max_length=12, choices=AgentRunState, default=AgentRunState.STARTING)
    reason = models.TextField(blank=True)  # why it failed or asks, as a message
    token_sha256 = models.CharField(max_length=64, unique=True)  # of the token for the model relay
    before = models.ForeignKey(
        Snapshot, models.SET_NULL, null=True, blank=True, related_name="+"
    )  # taken before the first turn
    preparing = models.ForeignKey(Operation, models.SET_NULL, null=True, blank=True, related_name="+")
    started_by = models.ForeignKey(settings.AUTH_USER_MODEL, models.SET_NULL, null=True, blank=True, related_name="+")
    scheduled = models.OneToOneField(
        ScheduledRun, models.SET_NULL, null=True, blank=True, related_name="agent_run"
    )  # the run of a schedule that started it
    # Budgets; None: no limit. Once one is met the relay refuses model calls, and a person is asked.
    budget_minutes = models.PositiveIntegerField(null=True, blank=True)  # of work since it was last extended
    budget_tokens = models.PositiveBigIntegerField(null=True, blank=True)
    budget_cost = models.DecimalField(max_digits=12, decimal_places=4, null=True, blank=True)  # at the team's prices
    budget_from = models.DateTimeField(null=True, blank=True)  # since when the minutes count; None: before its start
    budget_met = models.CharField(max_length=200, blank=True)  # which budget refused a model's call
    met_limit = models.CharField(max_length=16, blank=True)  # CapMeasure, if a limit of the team refused it
    tokens_in = models.PositiveBigIntegerField(default=0)
    tokens_out = models.PositiveBigIntegerField(default=0)
    tokens_cached = models.PositiveBigIntegerField(default=0)
    cost = models.DecimalField(max_digits=14, decimal_places=6, default=0)
    tries = models.PositiveSmallIntegerField(default=0)  # starts in a row that ended without an answer
    summary = models.TextField(blank=True)  # the last answer, without secret values
    untold = models.CharField(max_length=12, blank=True)  # the state that its starter has to be told of
    created_at = models.DateTimeField()
    changed_at = models.DateTimeField()

    objects = AgentRunQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["workspace"], condition=Q(state__in=["starting", "working"]), name="agent_run_one_at_a_time"
            ),
            models.CheckConstraint(condition=Q(state__in=AgentRunState.values), name="agent_run_state_known"),
        ]
        indexes = [
            models.Index(fields=["team", "created_at"], name="agent_run_by_time"),
            models.Index(fields=["state"], condition=Q(state__in=["starting", "working"]), name="agent_run_open"),
            models.Index(fields=["untold"], condition=~Q(untold=""), name="agent_run_untold"),
        ]

    def __str__(self):
        return " ".join(self.task.split())[:80]

    @property
    def is_open(self) -> bool:
        return self.state in OPEN_RUNS

    @property
    def is_trial(self) -> bool:
        """Whether its model is scripted, to try the gate."""
        return hasattr(self, "trial")

    @property
    def is_closed(self) -> bool:
        """Whether a person has accepted or discarded it."""
        return self.state in CLOSED_RUNS

    @property
    def program_name(self) -> str:
        return self.program.partition("@")[0]

    @property
    def program_title(self) -> str:
        """The program as people call it: "Codex 0.169.0"."""
        name, _, version = self.program.partition("@")
        return f"{extensions.agent_programs[name].title} {version}"


class AgentTurn(models.Model):
    """One start of a run's program, with what it was told."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    run = models.ForeignKey(AgentRun, models.CASCADE, related_name="turns")
    number = models.PositiveIntegerField()
    kind = models.CharField(max_length=8, choices=TurnKind)
    prompt = models.TextField()
    by = models.ForeignKey(settings.AUTH_USER_MODEL, models.SET_NULL, null=True, blank=True, related_name="+")
    command = models.OneToOneField(Command, models.SET_NULL, null=True, blank=True, related_name="agent_turn")
    end = models.CharField(max_length=8, choices=TurnEnd, blank=True)  # "" while it is open
    reason = models.TextField(blank=True)
    asked_to_end_at = models.DateTimeField(null=True, blank=True)  # by a person
    next_prompt = models.TextField(blank=True)  # of a person who interrupted it: what the next turn is told
    created_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["number"]
        constraints = [
            models.UniqueConstraint(fields=["run", "number"], name="agent_turn_once"),
            models.UniqueConstraint(fields=["run"], condition=Q(end=""), name="agent_turn_one_open"),
        ]

    def __str__(self):
        return f"turn {self.number} of {self.run_id}"


class ModelCall(models.Model):
    """One request of a run to a model, through the relay: reserved before it is sent, settled by what it used."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    run = models.ForeignKey(AgentRun, models.CASCADE, related_name="model_calls")
    provider = models.CharField(max_length=20)
    model = models.CharField(max_length=100)
    reserved_tokens = models.PositiveBigIntegerField(default=0)
    reserved_cost = models.DecimalField(max_digits=14, decimal_places=6, default=0)
    tokens_in = models.PositiveBigIntegerField(default=0)
    tokens_out = models.PositiveBigIntegerField(default=0)
    tokens_cached = models.PositiveBigIntegerField(default=0)
    cost = models.DecimalField(max_digits=14, decimal_places=6, default=0)
    status = models.PositiveSmallIntegerField(null=True, blank=True)  # of the provider's response
    is_estimate = models.BooleanField(default=False)  # the provider did not say what it used
    at = models.DateTimeField()
    settled_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        indexes = [models.Index(fields=["run", "at"], name="model_call_by_time")]

    def __str__(self):
        return f"{self.model} for {self.run_id}"
