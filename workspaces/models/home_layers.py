"""What was installed in the home of a workspace, kept for all new workspaces of an environment."""

import uuid

from django.db import models

from dashboard.models import Team


class HomeLayerQuerySet(models.QuerySet):
    def trees_of(self, team_id) -> list[bytes]:
        return [bytes(tree) for tree in self.filter(team=team_id).values_list("tree", flat=True)]


class HomeLayer(models.Model):
    """Folders of a home as a tree of the team's store. Rows are immutable; versions of environments name them."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    team = models.ForeignKey(Team, models.CASCADE, related_name="+")
    tree = models.BinaryField(max_length=32)
    folders = models.JSONField(default=list)  # [{path, files, bytes, packages, mark}], as runner/installed/home_scan.py
    bytes = models.PositiveBigIntegerField(default=0)
    key = models.CharField(max_length=64)  # of the workspace that it is from, which may be gone
    # The layer that it took the place of.
    former = models.ForeignKey("self", models.SET_NULL, null=True, blank=True, related_name="+")
    operation = models.UUIDField(unique=True)  # that kept it: one performed again after a crash keeps no second one
    by = models.JSONField(default=dict)  # {type, id, label}
    created_at = models.DateTimeField()

    objects = HomeLayerQuerySet.as_manager()

    def __str__(self):
        return f"installed in {self.key}"

    @property
    def tree_hex(self) -> str:
        return bytes(self.tree).hex()

    @property
    def packages(self) -> int:
        return sum(len(folder["packages"]) + folder["more_packages"] for folder in self.folders)
