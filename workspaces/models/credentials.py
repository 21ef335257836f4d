"""Credentials with a leash: kept by Handrail, and put into requests of workspaces on their way out."""

import uuid

from django.db import models

from dashboard.models import Team
from workspaces.models.of_team import OfTeamQuerySet


class Credential(models.Model):
    """An encrypted value that no workspace has; programs of the named environments have a stand-in for it."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    team = models.ForeignKey(Team, models.CASCADE, related_name="credentials")
    name = models.CharField(max_length=80)
    value = models.BinaryField()
    header = models.CharField(max_length=200)  # Authorization: Bearer {}
    variable = models.CharField(max_length=80)  # in which programs find the stand-in
    hosts = models.JSONField(default=list)  # [{host, paths, methods}]
    environments = models.JSONField(default=list)  # names
    set_at = models.DateTimeField()
    set_by = models.JSONField(default=dict)  # {type, id, label}
    last_used_at = models.DateTimeField(null=True, editable=False)

    objects = OfTeamQuerySet.as_manager()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["team", "name"], name="credential_name_once")]

    def __str__(self):
        return self.name
