"""What the measures count by day, and what a team pays and allows for it."""

import uuid

from django.core.validators import MinValueValidator
from django.db import models

from dashboard.database.row_locks import LockingQuerySet
from dashboard.models import Team
from workspaces.models.workspaces import Workspace


class EgressDay(models.Model):
    """Bytes that programs of a workspace sent and received through the proxy on one day (UTC)."""

    workspace = models.ForeignKey(Workspace, models.CASCADE, related_name="egress_days")
    day = models.DateField()
    sent = models.PositiveBigIntegerField(default=0)
    received = models.PositiveBigIntegerField(default=0)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["workspace", "day"], name="egress_day_once")]
        indexes = [models.Index(fields=["day"], name="egress_by_day")]

    def __str__(self):
        return f"{self.workspace_id} {self.day}"


class CapMeasure(models.TextChoices):
    AWAKE_HOURS = "awake_hours", "hours awake"
    EGRESS_BYTES = "egress_bytes", "bytes over the network"
    WORKSPACES = "workspaces", "workspaces"
    DISK_BYTES = "disk_bytes", "bytes on disk"
    AGENT_TOKENS = "agent_tokens", "tokens of started agents"
    AGENT_COST = "agent_cost", "hundredths of the currency for models"


class Cap(models.Model):
    """A team's limit, for a calendar month (UTC) or at any time. Once met, no workspace starts until it is lifted.

    Limits for started agents do not affect workspaces: the model relay refuses requests, and the runs ask for more.

    Months are kept as "2026-11": each state is of one month and means nothing in the next.
    """

    team = models.ForeignKey(Team, models.CASCADE, related_name="caps")
    measure = models.CharField(max_length=16, choices=CapMeasure)
    limit = models.PositiveBigIntegerField(validators=[MinValueValidator(1)])
    warned_month = models.CharField(max_length=7, blank=True)
    met_month = models.CharField(max_length=7, blank=True)
    lifted_month = models.CharField(max_length=7, blank=True)

    objects = LockingQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["team", "measure"], name="cap_once"),
            models.CheckConstraint(condition=models.Q(measure__in=CapMeasure.values), name="cap_measure_known"),
        ]

    def __str__(self):
        return f"{self.limit} {self.get_measure_display()}"


def _price():
    return models.DecimalField(max_digits=12, decimal_places=4, default=0, validators=[MinValueValidator(0)])


class Prices(models.Model):
    """What an admin says that a team's use costs; 0 for what costs nothing."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    team = models.OneToOneField(Team, models.CASCADE, related_name="prices")
    currency = models.CharField(max_length=8, default="EUR")
    awake_hour = _price()
    egress_gb = _price()  # 10^9 bytes sent or received
    input_mtok = _price()  # a million tokens that a model read
    output_mtok = _price()

    class Meta:
        verbose_name_plural = "prices"

    def __str__(self):
        return f"prices of {self.team}"
