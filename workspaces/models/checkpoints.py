"""Checkpoints: memory and files of a paused microVM, kept under a name to continue from."""

import uuid

from django.db import models
from django.db.models import Q

from workspaces.models.environments import Environment
from workspaces.models.snapshots import Snapshot
from workspaces.models.workspaces import Workspace


class CheckpointQuerySet(models.QuerySet):
    def visible_to(self, who):
        return self.filter(workspace__in=Workspace.objects.visible_to(who))

    def kept(self):
        """Return those whose files are complete."""
        return self.exclude(bytes=None)


class Checkpoint(models.Model):
    """A paused microVM as it was: what `Run` and `Workspace` must say again for its memory to fit."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    workspace = models.ForeignKey(Workspace, models.CASCADE, related_name="checkpoints")
    name = models.CharField(max_length=100)
    snapshot = models.ForeignKey(Snapshot, models.SET_NULL, null=True, blank=True, related_name="+")  # of its files
    snapshot_number = models.PositiveIntegerField()  # retention may delete the snapshot
    environment = models.ForeignKey(Environment, models.PROTECT, related_name="+")
    base = models.JSONField(default=dict, blank=True)  # Workspace.base at that time
    disk_generation = models.PositiveIntegerField()  # Workspace.disk_generation at that time
    began = models.CharField(max_length=64, blank=True)  # id of the Run that started the programs in the memory
    bytes = models.PositiveBigIntegerField(null=True, blank=True)  # on disk; null: the runner has not kept it yet
    by = models.JSONField(default=dict)  # {type, id, label}
    created_at = models.DateTimeField()

    objects = CheckpointQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["workspace", "name"], name="checkpoint_name_once"),
            models.CheckConstraint(condition=~Q(name=""), name="checkpoint_named"),
        ]
        indexes = [models.Index(fields=["workspace", "created_at"], name="checkpoint_by_time")]

    def __str__(self):
        return self.name
