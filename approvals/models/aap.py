"""Requests over the Agent Approval Protocol."""

import uuid

from django.db import models

from dashboard.models import Agent


class AapRequest(models.Model):
    """A request of one agent: what it submitted, word for word, and the action whose decision answers it.

    Two requests share an action if a person edited the call of the first, and the second asks for the edited call.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    agent = models.ForeignKey(Agent, models.CASCADE, related_name="+")
    action = models.ForeignKey("approvals.Action", models.CASCADE, related_name="aap_requests")
    key = models.CharField(max_length=200)  # the client's idempotency key
    submission = models.TextField()  # the JSON object as it was received
    created_at = models.DateTimeField()
    deadline_at = models.DateTimeField()  # as first told; clients refuse a request whose deadline moves

    class Meta:
        constraints = [models.UniqueConstraint(fields=["agent", "key"], name="aap_request_once")]

    def __str__(self):
        return f"AAP request {self.pk}"
