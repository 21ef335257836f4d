"""The pull requests of workspaces."""

import uuid

from django.db import models

from workspaces.models.workspaces import Workspace


class PullRequest(models.Model):
    """A pull request that Handrail opened for a workspace at a code host."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    workspace = models.ForeignKey(Workspace, models.CASCADE, related_name="pull_requests")
    number = models.PositiveIntegerField()  # at its host
    url = models.CharField(max_length=600)
    branch = models.CharField(max_length=200)
    base = models.CharField(max_length=200)
    title = models.CharField(max_length=250)
    sha = models.CharField(max_length=64)  # of the newest commit that was pushed
    by = models.JSONField(default=dict)  # {type, id, label}
    opened_at = models.DateTimeField()
    pushed_at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["workspace", "url"], name="pull_request_once")]

    def __str__(self):
        return f"#{self.number}"
