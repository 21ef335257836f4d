"""Files of a workspace that stay when the workspace and its snapshots are gone."""

import uuid

from django.db import models
from django.db.models import Q

from dashboard.models import Team
from workspaces.models.workspaces import Workspace


class ArtifactQuerySet(models.QuerySet):
    def visible_to(self, who):
        """Return those of a person's teams; an agent's: those of the workspaces that it sees."""
        rows = self.filter(team_id__in=who.team_ids)
        return rows if who.is_person else rows.filter(workspace__in=Workspace.objects.visible_to(who))

    def kept(self):
        """Return those whose files are in the store. Their trees must stay there."""
        return self.exclude(tree=None)

    def trees_of(self, team_id) -> list[bytes]:
        return [bytes(tree) for tree in self.kept().filter(team=team_id).values_list("tree", flat=True)]


class Artifact(models.Model):
    """Chosen files of a snapshot, by name. `tree` is a tree of the team's store that has only them."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    team = models.ForeignKey(Team, models.CASCADE, related_name="+")
    workspace = models.ForeignKey(Workspace, models.SET_NULL, null=True, blank=True, related_name="artifacts")
    key = models.CharField(max_length=64)  # of the workspace, which may be gone
    repository = models.CharField(max_length=500, blank=True)  # the git address that the workspace was made from
    snapshot_number = models.PositiveIntegerField()
    name = models.CharField(max_length=100)
    note = models.TextField(blank=True)
    paths = models.JSONField(default=list)  # in the snapshot, percent-encoded
    tree = models.BinaryField(max_length=32, null=True, blank=True)  # null: the runner has not put them together yet
    entries = models.PositiveIntegerField(default=0)
    bytes = models.PositiveBigIntegerField(default=0)
    by = models.JSONField(default=dict)  # {type, id, label}
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField(null=True, blank=True)  # null: kept as the team's retention says

    objects = ArtifactQuerySet.as_manager()

    class Meta:
        constraints = [models.CheckConstraint(condition=~Q(name=""), name="artifact_named")]
        indexes = [
            models.Index(fields=["team", "repository", "name", "created_at"], name="artifact_by_name"),
            models.Index(fields=["team", "created_at"], name="artifact_of_team"),
        ]

    def __str__(self):
        return self.name

    @property
    def tree_hex(self) -> str:
        return bytes(self.tree).hex() if self.tree else ""
