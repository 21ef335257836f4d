"""Snapshots and their manifests."""

import uuid

from django.db import models
from django.db.models import Q

from workspaces.models.runs import Run
from workspaces.models.workspaces import Workspace

SOME_PATHS = " (some paths)"  # how the label of a snapshot ends that was taken after some paths were restored


class SnapshotQuerySet(models.QuerySet):
    def kept(self):
        return self.filter(trashed_at=None)

    def in_trash(self):
        return self.filter(trashed_at__isnull=False)


class Snapshot(models.Model):
    """The files of a workspace at a point in time, numbered per workspace."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    workspace = models.ForeignKey(Workspace, models.CASCADE, related_name="snapshots")
    number = models.PositiveIntegerField()
    tree = models.BinaryField(max_length=32)
    parent = models.ForeignKey("self", models.SET_NULL, null=True, blank=True, related_name="children")
    # setup, action, asked, manual, periodic, end, safety, restored, revision, fork, found, kept
    kind = models.CharField(max_length=24)
    label = models.CharField(max_length=120, blank=True)
    entries = models.PositiveBigIntegerField()
    bytes = models.PositiveBigIntegerField()
    added_bytes = models.PositiveBigIntegerField()
    skipped = models.JSONField(default=list, blank=True)
    # How many entries it looked at: {walked, watched}; {} for snapshots of before, which walked everything.
    looked_at = models.JSONField(default=dict, blank=True)
    pinned = models.BooleanField(default=False)
    by = models.JSONField(default=dict)  # {type, id, label} of the actor who requested it
    created_at = models.DateTimeField()
    # In the trash: it can be restored until `drop_at`, and is deleted for good afterwards.
    trashed_at = models.DateTimeField(null=True, blank=True)
    drop_at = models.DateTimeField(null=True, blank=True)

    objects = SnapshotQuerySet.as_manager()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["workspace", "number"], name="snapshot_number_once")]
        indexes = [
            models.Index(fields=["tree"], name="snapshot_by_tree"),
            # The measures add up bytes from the index alone.
            models.Index(fields=["created_at", "workspace", "added_bytes"], name="snapshot_by_time"),
            models.Index(fields=["drop_at"], condition=Q(drop_at__isnull=False), name="snapshot_by_drop"),
        ]

    def __str__(self):
        return f"snapshot {self.number}"

    @property
    def tree_hex(self) -> str:
        return bytes(self.tree).hex()


class Manifest(models.Model):
    """The provenance record of a snapshot or of a resume."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    snapshot = models.OneToOneField(Snapshot, models.CASCADE, null=True, blank=True, related_name="manifest")
    run = models.OneToOneField(Run, models.CASCADE, null=True, blank=True, related_name="manifest")
    body = models.JSONField()
    sha256 = models.CharField(max_length=64)
    signature = models.CharField(max_length=88, blank=True)  # by the log's key, in base64; empty if made unsigned

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(snapshot=None, run__isnull=False) | Q(snapshot__isnull=False, run=None),
                name="manifest_of_one",
            )
        ]

    def __str__(self):
        return f"manifest of {self.snapshot or self.run}"
