"""A team's snapshot store: its identity, its maintenance, and how long things are kept."""

import uuid

from django.core.validators import MaxValueValidator
from django.db import models

from dashboard.models import Team

AT_MOST_DAYS = MaxValueValidator(36_500, "At most 36,500 days (a hundred years); leave it empty to keep for ever.")


class RetentionPolicy(models.Model):
    """How long a team's snapshots, homes, output and unused workspaces are kept. In days; empty means for ever."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    team = models.OneToOneField(Team, models.CASCADE, related_name="retention")
    snapshot_days = models.PositiveIntegerField(null=True, blank=True, default=90, validators=[AT_MOST_DAYS])
    keep_newest_snapshots = models.PositiveIntegerField(default=20, validators=[MaxValueValidator(1_000_000)])
    home_days = models.PositiveIntegerField(null=True, blank=True, default=30, validators=[AT_MOST_DAYS])
    output_days = models.PositiveIntegerField(null=True, blank=True, default=90, validators=[AT_MOST_DAYS])
    unused_workspace_days = models.PositiveIntegerField(null=True, blank=True, default=None, validators=[AT_MOST_DAYS])

    class Meta:
        verbose_name_plural = "retention policies"

    def __str__(self):
        return f"retention of {self.team}"


class StoreIdentity(models.Model):
    """The id of a team's snapshot store, as in the `format` file of the store (workspaces/stores.py)."""

    team = models.OneToOneField(Team, models.CASCADE, primary_key=True, related_name="store_identity")
    store_id = models.CharField(max_length=64)

    def __str__(self):
        return f"store of {self.team}"


class StoreTask(models.TextChoices):
    """What can be done with a store; each is an operation of the team (workspaces/services/store_maintenance.py)."""

    CHECK = "check", "Check"
    COLLECT = "collect", "Free space"
    REPAIR = "repair", "Repair"

    @property
    def kind(self) -> str:
        """Return the kind of its operations."""
        return f"store_{self.value}"
