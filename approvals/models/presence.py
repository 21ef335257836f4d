"""Who has a card open, so that two people do not decide it at once unawares."""

from django.conf import settings
from django.db import models


class CardViewer(models.Model):
    """A person who may decide an action and has its card on screen; `at` is when their page last said so."""

    id = models.BigAutoField(primary_key=True)
    action = models.ForeignKey("approvals.Action", models.CASCADE, related_name="+")
    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="+")
    at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["action", "user"], name="card_viewer_once")]

    def __str__(self):
        return f"{self.user} looks at {self.action_id}"
