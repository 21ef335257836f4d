"""What one person does with a card that others see too."""

from django.conf import settings
from django.db import models


class Snooze(models.Model):
    """A pending call is hidden from one person's list and notifications until a time, or until the call changes."""

    id = models.BigAutoField(primary_key=True)
    action = models.ForeignKey("approvals.Action", models.CASCADE, related_name="snoozes")
    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="+")
    digest = models.CharField(max_length=64)  # of the call that is hidden
    until = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["action", "user"], name="snooze_once")]

    def __str__(self):
        return f"{self.action_id} is hidden from {self.user}"
