"""Hand-overs: a workspace as it was when a person gave it to the next agent or person."""

import uuid

from django.db import models

from workspaces.models.notes import NoteVersion
from workspaces.models.snapshots import Snapshot
from workspaces.models.workspaces import Workspace


class HandOver(models.Model):
    """Snapshot, notes and open questions of a workspace at one time, for the next agent or person."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    workspace = models.ForeignKey(Workspace, models.CASCADE, related_name="hand_overs")
    snapshot = models.ForeignKey(Snapshot, models.SET_NULL, null=True, blank=True, related_name="+")
    snapshot_number = models.PositiveIntegerField()  # retention may delete the snapshot
    manifest_sha256 = models.CharField(max_length=64, blank=True)
    note = models.ForeignKey(NoteVersion, models.SET_NULL, null=True, blank=True, related_name="+")
    questions = models.JSONField(default=list, blank=True)  # [{kind, name, words, by, url}]: open at that time
    message = models.TextField(blank=True)
    redacted = models.JSONField(default=list, blank=True)  # names of secrets whose values were taken out of the message
    to = models.JSONField(default=dict)  # {type, id, label} of the next agent or person
    by = models.JSONField(default=dict)
    created_at = models.DateTimeField()

    class Meta:
        indexes = [models.Index(fields=["workspace", "created_at"], name="hand_over_by_time")]

    def __str__(self):
        return f"hand-over of {self.workspace_id}"
