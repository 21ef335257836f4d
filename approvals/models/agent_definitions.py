"""Definitions of agents as data, in versions that do not change."""

import uuid

from django.conf import settings
from django.db import models

from dashboard.models import Team
from workspaces.models import OfTeamQuerySet


class AgentDefinition(models.Model):
    """One version of a definition: what an agent is told, remembers and may use. Rows are immutable."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    team = models.ForeignKey(Team, models.CASCADE, related_name="agent_definitions")
    name = models.CharField(max_length=80)
    version = models.PositiveIntegerField(default=1)
    # {description, system, memory, tools, model, environment, variables, secrets}; see agent_definitions/content.py
    content = models.JSONField()
    origin = models.CharField(max_length=16, blank=True)  # the format that it was imported from
    document = models.JSONField(null=True, blank=True)  # what was imported, without the values of secrets
    by = models.ForeignKey(settings.AUTH_USER_MODEL, models.SET_NULL, null=True, blank=True, related_name="+")
    comment = models.CharField(max_length=300, blank=True)
    created_at = models.DateTimeField()

    objects = OfTeamQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["team", "name", "version"], name="agent_definition_version_once")
        ]
        indexes = [models.Index(fields=["team", "created_at"], name="agent_definition_by_time")]

    def __str__(self):
        return f"{self.name} v{self.version}"
