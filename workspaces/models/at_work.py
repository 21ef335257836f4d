"""Which agents were at work in a workspace last."""

from django.db import models

from dashboard.models import Agent
from workspaces.models.workspaces import Workspace


class AgentAtWork(models.Model):
    """When an agent last did something in a workspace: asked for a call, ran a command, changed a file."""

    workspace = models.ForeignKey(Workspace, models.CASCADE, related_name="at_work")
    agent = models.ForeignKey(Agent, models.CASCADE, related_name="+")
    at = models.DateTimeField(null=True, blank=True)  # null: it was refused, and has done nothing yet
    warned_at = models.DateTimeField(null=True, blank=True)  # when it was last told of the others
    refused_at = models.DateTimeField(null=True, blank=True)  # when its last refusal was recorded

    class Meta:
        verbose_name, verbose_name_plural = "agent at work", "agents at work"
        constraints = [models.UniqueConstraint(fields=["workspace", "agent"], name="agent_at_work_once")]

    def __str__(self):
        return f"{self.agent} in {self.workspace}"
