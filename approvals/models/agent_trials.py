"""Trials of agents' programs: each is a run with a scripted model in place of the provider."""

import uuid

from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy

from approvals.models.agent_runs import AgentRun
from dashboard.models import Team
from workspaces.models import OfTeamQuerySet


class TrialState(models.TextChoices):
    RUNNING = "running", gettext_lazy("Running")
    HELD = "held", gettext_lazy("The gate held")
    FAILED = "failed", gettext_lazy("Failed")


class AgentTrial(models.Model):
    """Whether the gate held a program in a new workspace of an environment. Stays when the workspace is gone."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    team = models.ForeignKey(Team, models.CASCADE, related_name="+")
    run = models.OneToOneField(AgentRun, models.SET_NULL, null=True, blank=True, related_name="trial")
    program = models.CharField(max_length=60)  # NAME@VERSION
    environment = models.CharField(max_length=80)  # its name
    environment_version = models.PositiveIntegerField()
    state = models.CharField(max_length=8, choices=TrialState, default=TrialState.RUNNING)
    heard = models.BooleanField(default=False)  # an allowed call came to the gate and ran
    denied = models.BooleanField(default=False)  # a forbidden one did not run, and the model read the reason
    reason = models.TextField(blank=True)  # why it failed, as a message
    created_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True, blank=True)

    objects = OfTeamQuerySet.as_manager()

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(state__in=TrialState.values), name="agent_trial_state_known"),
        ]
        indexes = [
            models.Index(fields=["team", "created_at"], name="agent_trial_by_time"),
            models.Index(fields=["state"], condition=Q(state="running"), name="agent_trial_running"),
        ]

    def __str__(self):
        return f"{self.program} in {self.environment}"
