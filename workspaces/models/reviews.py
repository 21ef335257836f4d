"""What people have reviewed."""

from django.conf import settings
from django.db import models

from workspaces.models.workspaces import Workspace


class SeenFile(models.Model):
    """A change of a file that a person marked as seen. `digest` covers its path and both contents."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="+")
    workspace = models.ForeignKey(Workspace, models.CASCADE, related_name="+")
    digest = models.CharField(max_length=64)
    at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["workspace", "user", "digest"], name="seen_once")]

    def __str__(self):
        return f"{self.user} saw {self.digest[:8]}"
