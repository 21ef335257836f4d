"""Rehearsals: commands that were tried on a copy of a workspace's files."""

import uuid

from django.db import models
from django.db.models import Q

from workspaces.models.operations import Operation
from workspaces.models.workspaces import Workspace


class RehearsalStatus(models.TextChoices):
    RUNNING = "running"
    DONE = "done"  # it ended: its exit status and the changed files are known
    FAILED = "failed"  # it could not be tried; `note` says why
    OUTDATED = "outdated"  # the workspace's files have changed since
    APPLIED = "applied"  # the workspace's files are what it left


class RehearsalQuerySet(models.QuerySet):
    def keeping_trees(self):
        """Rehearsals whose trees must stay in the store: one that was applied is in the workspace's own history."""
        return self.exclude(status=RehearsalStatus.APPLIED).exclude(tree=None)


class Rehearsal(models.Model):
    """One command that ran on a copy of a workspace's files, and what it did to them.

    `base` and `tree` are the store's ids of the files before and after it. The row is deleted, and with it all that is
    left of the rehearsal, when nobody can apply it any more.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    workspace = models.ForeignKey(Workspace, models.CASCADE, related_name="rehearsals")
    operation = models.OneToOneField(Operation, models.SET_NULL, null=True, blank=True, related_name="rehearsal")
    status = models.CharField(max_length=12, choices=RehearsalStatus, default=RehearsalStatus.RUNNING)
    base = models.BinaryField(max_length=32, null=True, blank=True)
    tree = models.BinaryField(max_length=32, null=True, blank=True)
    exit_status = models.IntegerField(null=True, blank=True)
    output = models.TextField(blank=True)  # its end
    output_bytes = models.PositiveBigIntegerField(default=0)
    changes = models.JSONField(default=list, blank=True)  # the first of them, as history.FileChange.as_json()
    change_count = models.PositiveIntegerField(default=0)
    tried = models.JSONField(default=list, blank=True)  # what was refused: [{kind, what}]
    note = models.TextField(blank=True)  # why it could not be tried, or how it ended if not by an exit status
    obstacle = models.TextField(blank=True)  # why its result cannot be applied
    created_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True, blank=True)

    objects = RehearsalQuerySet.as_manager()

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(status__in=RehearsalStatus.values), name="rehearsal_status_known"),
        ]

    def __str__(self):
        return f"rehearsal {self.status}"

    @property
    def base_hex(self) -> str:
        return bytes(self.base or b"").hex()

    @property
    def tree_hex(self) -> str:
        return bytes(self.tree or b"").hex()
