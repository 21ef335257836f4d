"""Who looked at what the policy or a grant let run without asking."""

from django.conf import settings
from django.db import models


class Look(models.Model):
    """A person's mark that they looked at an action afterwards. The first one stays."""

    action = models.OneToOneField("approvals.Action", models.CASCADE, primary_key=True, related_name="look")
    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.PROTECT, related_name="+")
    at = models.DateTimeField()

    def __str__(self):
        return f"{self.user} looked at {self.action_id}"
