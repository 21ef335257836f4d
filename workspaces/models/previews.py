"""Previews: who looks at a port of a workspace in a browser, on a host name of its own."""

import uuid

from django.conf import settings
from django.db import models

from workspaces.models.workspaces import Workspace


class Preview(models.Model):
    """One person's view of one port: entered with a one-time ticket, then kept by a cookie of the preview's host."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    workspace = models.ForeignKey(Workspace, models.CASCADE, related_name="previews")
    port = models.PositiveIntegerField()
    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="+")
    session_key = models.CharField(max_length=40, blank=True)  # the sign-in it ends with; "": opened with a token
    ticket_sha256 = models.CharField(max_length=64, unique=True)
    ticket_used_at = models.DateTimeField(null=True, blank=True)
    secret_sha256 = models.CharField(max_length=64, blank=True, db_index=True)  # of the cookie; "" until it is entered
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField()

    def __str__(self):
        return f"port {self.port} of {self.workspace_id}"
