"""Hosts that a workspace may reach, and the ones that its programs tried to reach."""

import uuid

from django.db import models
from django.db.models import Q

from workspaces.models.workspaces import Workspace


class Allowance(models.Model):
    """A host that this workspace may reach in addition to its environment's lists.

    One created by an operation has the id of that operation.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    workspace = models.ForeignKey(Workspace, models.CASCADE, related_name="allowances")
    rule = models.CharField(max_length=300)  # as in an environment's list: example.org or *.example.org, [:port]
    phase = models.CharField(max_length=16, default="agent")
    scope = models.CharField(max_length=16)  # once, workspace, environment
    by = models.JSONField(default=dict)
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField(null=True, blank=True)  # only with scope "once"
    ended_at = models.DateTimeField(null=True, blank=True)  # when it was used up or revoked

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(scope__in=["once", "workspace", "environment"]), name="allowance_scope")
        ]
        indexes = [models.Index(fields=["workspace", "ended_at"], name="allowance_open")]

    def __str__(self):
        return f"{self.rule} ({self.scope})"


class Contact(models.Model):
    """Connection attempts by programs of a workspace, counted: a row per phase, host, port, method and outcome."""

    workspace = models.ForeignKey(Workspace, models.CASCADE, related_name="contacts")
    phase = models.CharField(max_length=16)
    host = models.CharField(max_length=253)  # empty if the request named none
    port = models.PositiveIntegerField()
    method = models.CharField(max_length=16)
    allowed = models.BooleanField()
    code = models.CharField(max_length=32, blank=True)  # why it was blocked: egress.attempts.BlockCode
    why = models.CharField(max_length=200, blank=True)  # the same for people
    count = models.PositiveBigIntegerField(default=0)
    sent = models.PositiveBigIntegerField(default=0)  # bytes
    received = models.PositiveBigIntegerField(default=0)
    first_at = models.DateTimeField()
    last_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["workspace", "phase", "host", "port", "method", "allowed", "why"], name="contact_counted_once"
            )
        ]

    def __str__(self):
        return f"{self.host}:{self.port} {'allowed' if self.allowed else 'blocked'}"
