"""Policy files of repositories, each as its content was first seen in a workspace."""

import uuid

from django.conf import settings
from django.db import models

from dashboard.models import Team
from workspaces.models import OfTeamQuerySet, Workspace


class PolicyFile(models.Model):
    """One content of the policy file of a repository. It only tightens the team's policy, unless a lead adopted it."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    team = models.ForeignKey(Team, models.CASCADE, related_name="policy_files")
    repository = models.CharField(max_length=500)  # its name, or `environment:NAME` of a workspace that is from none
    sha256 = models.CharField(max_length=64, blank=True)  # of the content; "" if there is something that can't be read
    text = models.TextField(blank=True)
    problem = models.TextField(blank=True)  # why it can't be judged by
    workspace = models.ForeignKey(Workspace, models.SET_NULL, null=True, blank=True, related_name="+")  # seen there
    seen_at = models.DateTimeField()
    adopted_by = models.ForeignKey(settings.AUTH_USER_MODEL, models.SET_NULL, null=True, blank=True, related_name="+")
    is_adopted = models.BooleanField(default=False)
    changed_at = models.DateTimeField(null=True, blank=True)  # when it was last adopted, or no longer

    objects = OfTeamQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["team", "repository", "sha256"], name="policy_file_once"),
        ]

    def __str__(self):
        return f"policy file of {self.repository}"

    @property
    def short(self) -> str:
        """The beginning of the digest, as cards and pages name it."""
        return self.sha256[:12] or "unreadable"
