"""How long a team keeps what: its own rules beside the defaults, and the holds that nothing may delete past."""

import uuid

from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.db.models import Q

from dashboard.database import clock
from dashboard.models import Team
from workspaces.models.of_team import OfTeamQuerySet
from workspaces.models.snapshots import Snapshot
from workspaces.models.workspaces import Workspace

MAX_DAYS = 36_500
AT_MOST_DAYS = MaxValueValidator(MAX_DAYS, "At most 36,500 days (a hundred years); leave it empty to keep for ever.")
MAX_HOURS = 8_760
ONE_HOUR = MinValueValidator(1, "At least 1 hour.")
AT_MOST_HOURS = MaxValueValidator(MAX_HOURS, "At most 8,760 hours (a year).")
AT_MOST_KEPT = MaxValueValidator(1_000_000, "At most 1,000,000.")


class RetentionRule(models.Model):
    """A team's own rule for one layer (services/retention/layers); where there is none, the layer's default applies.

    `environment` is the name of an environment; "" is the whole team. The rule of the environment wins.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    team = models.ForeignKey(Team, models.CASCADE, related_name="retention_rules")
    environment = models.CharField(max_length=80, blank=True)
    layer = models.CharField(max_length=40)
    days = models.PositiveIntegerField(null=True, blank=True, validators=[AT_MOST_DAYS])  # None: for ever
    # In place of days, of a layer that is swept within the hour.
    hours = models.PositiveIntegerField(null=True, blank=True, validators=[ONE_HOUR, AT_MOST_HOURS])
    keep_newest = models.PositiveIntegerField(default=0, validators=[AT_MOST_KEPT])
    keep_daily = models.PositiveIntegerField(default=0, validators=[AT_MOST_KEPT])
    keep_weekly = models.PositiveIntegerField(default=0, validators=[AT_MOST_KEPT])
    keep_monthly = models.PositiveIntegerField(default=0, validators=[AT_MOST_KEPT])

    objects = OfTeamQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["team", "environment", "layer"], name="retention_rule_once"),
        ]

    def __str__(self):
        return f"{self.layer} of {self.environment or self.team}"


class HoldQuerySet(OfTeamQuerySet):
    def visible_to(self, who):
        """Return the holds of a person's teams; for an agent those on workspaces that it may see."""
        holds = super().visible_to(who)
        return holds if who.is_person else holds.filter(workspace__in=Workspace.objects.visible_to(who))

    def active(self, at=None):
        """Return the holds that were not released and have not ended."""
        return self.filter(released_at=None).filter(Q(until=None) | Q(until__gt=at or clock.now()))

    def keeping(self, workspace):
        """Return the active holds on a workspace, on one of its snapshots or on its team, the newest first."""
        of_it = self.active().filter(Q(workspace=None) | Q(workspace=workspace.pk), team=workspace.team_id)
        return of_it.select_related("team", "workspace", "snapshot").order_by("-created_at")


class Hold(models.Model):
    """A promise that nothing deletes a snapshot, a workspace, or anything of a team, for a reason."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    team = models.ForeignKey(Team, models.CASCADE, related_name="holds")
    # Both None: the whole team. With a snapshot, `workspace` is the snapshot's.
    workspace = models.ForeignKey(Workspace, models.CASCADE, null=True, blank=True, related_name="holds")
    snapshot = models.ForeignKey(Snapshot, models.CASCADE, null=True, blank=True, related_name="holds")
    reason = models.CharField(max_length=500)
    until = models.DateTimeField(null=True, blank=True)  # None: until it is released
    by = models.JSONField(default=dict)  # {type, id, label}
    created_at = models.DateTimeField()
    released_at = models.DateTimeField(null=True, blank=True)
    released_by = models.JSONField(default=dict, blank=True)

    objects = HoldQuerySet.as_manager()

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(snapshot=None) | Q(workspace__isnull=False), name="hold_names_workspace")
        ]
        indexes = [models.Index(fields=["team", "released_at"], name="hold_by_team")]

    def __str__(self):
        return f"hold on {self.what}"

    @property
    def what(self) -> str:
        """What it protects, in words."""
        if self.snapshot_id:
            return f"snapshot {self.snapshot.number} of {self.workspace.key}"
        return self.workspace.key if self.workspace_id else f"everything of {self.team}"


class TeamRetention(Team):
    """A team, as the admin lists it to show and set its retention."""

    class Meta:
        proxy = True
        verbose_name = "retention of a team"
        verbose_name_plural = "retention"
