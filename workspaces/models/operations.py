"""Operations: work that must happen at most once."""

import uuid

from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy

from dashboard.database.row_locks import LockingQuerySet
from dashboard.models import Team
from workspaces.models.runners import Runner
from workspaces.models.workspaces import Workspace


class Phase(models.TextChoices):
    DUE = "due"
    CLAIMED = "claimed"
    STARTED = "started"
    SETTLED = "settled"
    UNCERTAIN = "uncertain"


class ReasonCode(models.TextChoices):
    """Why an operation was not carried out; `reason_code` in its outcome, beside the message in `reason`."""

    REFUSED = "refused"
    STATE = "state"  # not possible in the workspace's state
    TEAM_STOPPED = "team_stopped"
    CANCELLED = "cancelled"
    CONFLICTS = "conflicts"
    DRIVER = "driver"
    STORE = "store"
    SOURCE = "source"  # the repository at the other end did not answer, or not with what was asked for
    BEHIND = "behind"  # the branch has commits that are not here; the outcome has them in `missing`
    MOVED = "moved"  # HEAD is not the commit that was shown; the outcome has `shown` and `now`
    TOKEN = "token"  # the source's host wants other credentials; the outcome has `secret`: {name, origin} to set
    SETUP = "setup"
    SNAPSHOT_MISSING = "snapshot_missing"
    NOT_STARTED = "not_started"
    FORGOTTEN = "forgotten"
    KILLED = "killed"
    LOST = "lost"
    SYSTEM = "system"
    RUNNER_STOPPED = "runner_stopped"
    RUNNER_ERROR = "runner_error"
    RESTORED = "restored"  # the database was restored to a time before it


class RevisionHow(models.TextChoices):
    """How the commits of a revision are taken; the labels are shown."""

    MERGE = "merge", gettext_lazy("Merge")
    REBASE = "rebase", gettext_lazy("Rebase the work here")
    BESIDE = "beside", gettext_lazy("Fetch the commits only")


class OperationQuerySet(LockingQuerySet):
    def open(self):
        """Operations that are due or in flight. An uncertain one counts as over."""
        return self.filter(phase__in=[Phase.DUE, Phase.CLAIMED, Phase.STARTED])

    def in_flight(self):
        return self.filter(phase__in=[Phase.CLAIMED, Phase.STARTED])


class Operation(models.Model):
    """Work that must happen at most once; workspaces/operations/__init__.py changes its phase."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    runner = models.ForeignKey(Runner, models.PROTECT, null=True, blank=True, related_name="operations")
    workspace = models.ForeignKey(Workspace, models.CASCADE, null=True, blank=True, related_name="operations")
    team = models.ForeignKey(
        Team, models.CASCADE, null=True, blank=True, related_name="operations"
    )  # or a team's store
    kind = models.CharField(max_length=64)
    args = models.JSONField(default=dict)
    exclusive = models.BooleanField(default=False)
    phase = models.CharField(max_length=16, choices=Phase, default=Phase.DUE)
    epoch = models.PositiveIntegerField(default=0)
    lease_until = models.DateTimeField(null=True, blank=True)
    due_at = models.DateTimeField()
    progress = models.JSONField(default=dict)  # {step, done, total, …} while it runs
    outcome = models.JSONField(null=True, blank=True)  # {"ok": bool, "reason": message, …} once settled
    dedupe = models.CharField(max_length=200, unique=True, null=True, blank=True)
    by = models.JSONField(default=dict)  # the Actor who requested it
    created_at = models.DateTimeField(auto_now_add=True)
    cancelled_at = models.DateTimeField(null=True, blank=True)  # when cancellation was requested; it may come too late
    started_at = models.DateTimeField(null=True, blank=True)
    settled_at = models.DateTimeField(null=True, blank=True)
    dismissed_at = models.DateTimeField(null=True, blank=True)  # when a person put away that its outcome is unknown

    objects = OperationQuerySet.as_manager()

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(phase__in=Phase.values), name="operation_phase_known"),
            models.UniqueConstraint(
                fields=["workspace"],
                condition=Q(exclusive=True, phase__in=["claimed", "started"]),
                name="operation_one_exclusive",
            ),
            models.UniqueConstraint(
                fields=["team", "kind"],
                condition=Q(phase__in=["due", "claimed", "started"]),
                name="operation_one_of_team",
            ),
            models.CheckConstraint(condition=Q(workspace=None) | Q(team=None), name="operation_of_one"),
            models.CheckConstraint(
                condition=~Q(phase="settled") | Q(outcome__isnull=False), name="operation_settled_has_outcome"
            ),
        ]
        indexes = [
            models.Index(fields=["runner", "phase", "due_at"], name="operation_by_due"),
            models.Index(
                fields=["workspace"], condition=Q(phase__in=["due", "claimed", "started"]), name="operation_under_way"
            ),
            models.Index(fields=["workspace"], condition=Q(phase="uncertain"), name="operation_uncertain"),
            models.Index(fields=["team", "kind"], condition=Q(team__isnull=False), name="operation_of_store"),
        ]

    def __str__(self):
        return f"{self.kind} {self.phase}"

    @property
    def of_team(self):
        """The id of the team whose work it is; None for work of the host."""
        return self.workspace.team_id if self.workspace_id else self.team_id
