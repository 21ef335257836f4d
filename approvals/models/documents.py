"""JSON documents that agents keep in Handrail."""

import uuid

from django.db import models
from django.db.models import Q

from dashboard.models import Agent
from workspaces.models import Workspace


class AgentDocument(models.Model):
    """One JSON object of an agent, such as the state of a library for approvals."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    agent = models.ForeignKey(Agent, models.CASCADE, related_name="documents")
    workspace = models.ForeignKey(  # that the agent's token is bound to, if it is bound to one
        Workspace, models.CASCADE, null=True, blank=True, related_name="agent_documents"
    )
    name = models.CharField(max_length=80)
    version = models.UUIDField()  # another one after each write
    value = models.BinaryField()  # the object as JSON, encrypted: it holds what the agent puts there
    bytes = models.PositiveIntegerField()  # of the JSON
    created_at = models.DateTimeField()
    changed_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["agent", "workspace", "name"], condition=~Q(workspace=None), name="document_of_workspace_once"
            ),
            models.UniqueConstraint(
                fields=["agent", "name"], condition=Q(workspace=None), name="document_of_agent_once"
            ),
        ]

    def __str__(self):
        return self.name
