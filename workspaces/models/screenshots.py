"""A picture of a page, kept with a snapshot."""

import uuid

from django.db import models

from workspaces.models.snapshots import Snapshot


class Screenshot(models.Model):
    """At most one for each snapshot, with which it goes. The bytes are a PNG or JPEG that somebody sent."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    snapshot = models.OneToOneField(Snapshot, models.CASCADE, related_name="+")
    kind = models.CharField(max_length=20)  # image/png or image/jpeg
    width = models.PositiveIntegerField()
    height = models.PositiveIntegerField()
    bytes = models.PositiveIntegerField()
    data = models.BinaryField()
    page = models.CharField(max_length=500, blank=True)  # the address that it shows, as who kept it says
    by = models.JSONField(default=dict)  # {type, id, label}
    created_at = models.DateTimeField()

    def __str__(self):
        return f"screenshot of {self.snapshot_id}"
