"""Ways back from what actions do outside, where no snapshot reaches."""

from django.db import models
from django.db.models import Q


class WayBackState(models.TextChoices):
    LOOKING = "looking"  # the runner is asked for it
    FOUND = "found"  # and what it takes is known, but for what the call itself brings about
    NONE = "none"  # `why_not` says why
    READY = "ready"  # the action is over, and the compensating call is known in full


class WayBack(models.Model):
    """The way back from one action, found for its revision with `digest` before it is decided.

    `title` says what it would do, as the rest of "can be undone outside: …". `call` is {tool, arguments}: the call that
    would be submitted. `steps` are what is to be taken back (workspaces.services.taking_back); `known` says what was
    there before.
    """

    action = models.OneToOneField("approvals.Action", models.CASCADE, primary_key=True, related_name="way_back")
    digest = models.CharField(max_length=64)
    state = models.CharField(max_length=8, choices=WayBackState, default=WayBackState.LOOKING)
    title = models.CharField(max_length=500, blank=True, default="")
    why_not = models.CharField(max_length=500, blank=True, default="")
    call = models.JSONField(null=True, blank=True)
    steps = models.JSONField(default=list, blank=True)
    found_at = models.DateTimeField(null=True, blank=True)
    # The newest action that was asked to take it back.
    taken_by = models.ForeignKey(
        "approvals.Action", models.SET_NULL, null=True, blank=True, related_name="+", db_index=False
    )

    class Meta:
        verbose_name_plural = "ways back"
        constraints = [
            models.CheckConstraint(
                condition=~Q(state__in=["found", "ready"]) | Q(call__isnull=False), name="way_back_found_with_call"
            )
        ]
        indexes = [models.Index(fields=["state"], condition=Q(state="found"), name="way_back_to_complete")]

    def __str__(self):
        return f"way back of {self.action_id}"
