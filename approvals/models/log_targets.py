"""Where a team's log is sent as it happens."""

import uuid

from django.db import models
from django.db.models import F, Q

from dashboard.models import Team
from dashboard.workers.outbox import Outgoing


class TargetKind(models.TextChoices):
    WEBHOOK = "webhook", "Webhook"
    SYSLOG = "syslog", "Syslog"
    FOLDER = "folder", "Folder"
    ADMINS = "admins", "Notifications of the admins"


class LogTargetQuerySet(models.QuerySet):
    def due(self, now):
        """Return the targets that have events to send and may be tried now."""
        free = Q(next_try_at=None) | Q(next_try_at__lte=now)
        return self.filter(free, active=True, team__event_seq__gt=F("cursor"))

    def to_people(self):
        """Return those that notify people on their devices and channels."""
        return self.filter(kind=TargetKind.ADMINS)

    def to_systems(self):
        """Return those that send to another system or a folder, which may take long."""
        return self.exclude(kind=TargetKind.ADMINS)

    def visible_to(self, who):
        return self.filter(team_id__in=who.team_ids)


class LogTarget(Outgoing):
    """One target: it has got every event up to `cursor`, in order, and none after it."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    team = models.ForeignKey(Team, models.CASCADE, related_name="log_targets")
    kind = models.CharField(max_length=8, choices=TargetKind)
    address = models.CharField(max_length=500, blank=True)  # a URL; of a folder and of admins nothing
    value = models.BinaryField(null=True, blank=True)  # signs a webhook's requests; encrypted
    only_alerts = models.BooleanField(default=False)
    cursor = models.BigIntegerField(default=0)
    active = models.BooleanField(default=True)
    created_at = models.DateTimeField()
    sent_at = models.DateTimeField(null=True, blank=True)

    objects = LogTargetQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["team", "kind", "address"], name="log_target_once"),
            models.CheckConstraint(condition=Q(kind__in=TargetKind.values), name="log_target_kind_known"),
        ]

    def __str__(self):
        return f"{self.get_kind_display()} {self.address}".strip()
