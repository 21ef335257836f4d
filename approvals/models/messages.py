"""What a person asks an agent about one of its calls, and what the agent answers."""

import uuid

from django.conf import settings
from django.db import models
from django.db.models import Q


class ActionMessage(models.Model):
    """One message about an action. It decides nothing: the policy never reads it."""

    class Kind(models.TextChoices):
        QUESTION = "question", "question"  # a person's
        ANSWER = "answer", "answer"  # the agent's; empty if it only made the call again

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    action = models.ForeignKey("approvals.Action", models.CASCADE, related_name="messages")
    kind = models.CharField(max_length=8, choices=Kind)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.PROTECT, null=True, blank=True, related_name="+")
    text = models.TextField(blank=True)  # without secret values
    at = models.DateTimeField()
    heard_at = models.DateTimeField(null=True, blank=True)  # of a question: when the agent got it

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(kind="question", user__isnull=False) | Q(kind="answer", user=None), name="message_author"
            )
        ]
        indexes = [models.Index(fields=["action", "at"], name="message_by_action")]

    def __str__(self):
        return f"{self.kind} about {self.action_id}"
