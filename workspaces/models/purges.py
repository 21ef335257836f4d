"""Receipts of purges: the places that were purged, and those that could not be, with the reason."""

import uuid

from django.db import models

from dashboard.models import Team
from workspaces.models.of_team import OfTeamQuerySet


class PurgeReceipt(models.Model):
    """The signed record of one purge. It holds no value and no personal data, only a keyed hash and counts."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    team = models.ForeignKey(Team, models.PROTECT, related_name="purge_receipts")
    body = models.JSONField()
    sha256 = models.CharField(max_length=64)
    signature = models.CharField(max_length=88)  # by the log's key, in base64
    created_at = models.DateTimeField()

    objects = OfTeamQuerySet.as_manager()

    class Meta:
        indexes = [models.Index(fields=["team", "created_at"], name="purge_receipt_by_time")]

    def __str__(self):
        return f"receipt {self.sha256[:12]}"
