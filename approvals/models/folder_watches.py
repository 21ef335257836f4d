"""Folders that clients of E2B's SDKs watch by asking again and again."""

import uuid

from django.db import models

from dashboard.models import Token
from workspaces.models import Workspace


class FolderWatch(models.Model):
    """One watched folder, as it was when its client asked last: any web can answer the next time."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    workspace = models.ForeignKey(Workspace, models.CASCADE, related_name="folder_watches")
    token = models.ForeignKey(Token, models.CASCADE, related_name="folder_watches")  # whose watch it is
    folder = models.TextField(blank=True)  # below the workspace's files; "" is all of them
    recursive = models.BooleanField(default=False)
    seen = models.JSONField()  # {name below the folder: state of the entry} (approvals/protocols/e2b/watching.py)
    looks = models.PositiveIntegerField(default=0)  # how often `seen` was replaced
    asked_at = models.DateTimeField()

    class Meta:
        verbose_name_plural = "folder watches"

    def __str__(self):
        return self.folder or "/"
