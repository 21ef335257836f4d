"""Drills: calls that an admin planted to see whether people read what they approve. They cannot run."""

from django.conf import settings
from django.db import models


class DrillOutcome(models.TextChoices):
    CAUGHT = "caught"  # denied, edited or sent back
    APPROVED = "approved"
    UNANSWERED = "unanswered"


class DrillQuerySet(models.QuerySet):
    def open(self):
        return self.filter(outcome="")


class Drill(models.Model):
    """One planted call, and how it was answered."""

    action = models.OneToOneField("approvals.Action", models.CASCADE, primary_key=True, related_name="drill")
    kind = models.CharField(max_length=32)  # approvals.actions.drills.KINDS
    planted_by = models.ForeignKey(settings.AUTH_USER_MODEL, models.PROTECT, related_name="+")
    planted_at = models.DateTimeField()
    outcome = models.CharField(max_length=12, choices=DrillOutcome, blank=True)
    answered_by = models.ForeignKey(settings.AUTH_USER_MODEL, models.PROTECT, null=True, blank=True, related_name="+")
    ended_at = models.DateTimeField(null=True, blank=True)

    objects = DrillQuerySet.as_manager()

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=models.Q(outcome="", ended_at=None)
                | (~models.Q(outcome="") & models.Q(ended_at__isnull=False)),
                name="drill_ended_in_full",
            )
        ]

    def __str__(self):
        return f"drill {self.kind} ({self.action_id})"
