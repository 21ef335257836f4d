"""Comments of people on lines of diffs."""

import uuid
from urllib.parse import unquote_to_bytes

from django.conf import settings
from django.db import models
from django.db.models import Q

from approvals.models.talk import AgentMessage
from dashboard.database.row_locks import LockingQuerySet
from dashboard.models import Agent, Team
from workspaces.models import Workspace


class Side(models.TextChoices):
    """The text that a comment's line is of: the one before the change, or the one after it."""

    OLD = "old"
    NEW = "new"


class LineCommentQuerySet(LockingQuerySet):
    def visible_to(self, who):
        """Return what was sent in a person's teams and the person's own drafts; an agent's: what it was sent."""
        if not who.is_person:
            sent = self.filter(sent_at__isnull=False, agent=who.agent.pk)
            return sent.filter(workspace=who.workspace_id) if who.workspace_id else sent
        return self.filter(Q(sent_at__isnull=False) | Q(user=who.user), team_id__in=who.team_ids)

    def drafts_of(self, who):
        return self.filter(user=who.user, sent_at=None, team_id__in=who.team_ids) if who.is_person else self.none()


class LineComment(models.Model):
    """A person's comment on lines of a diff: of a workspace's changes, or of a card. A draft until `sent_at`."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    team = models.ForeignKey(Team, models.CASCADE, related_name="+")
    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.PROTECT, related_name="+")
    workspace = models.ForeignKey(Workspace, models.CASCADE, null=True, blank=True, related_name="+")
    # The action whose card shows the diff; empty for the changes of a workspace.
    action = models.ForeignKey("approvals.Action", models.CASCADE, null=True, blank=True, related_name="+")
    path = models.TextField()  # percent-encoded, as file names are bytes
    side = models.CharField(max_length=3, choices=Side)
    line = models.PositiveIntegerField()  # the first one, from 1, when it was written
    end_line = models.PositiveIntegerField()
    quote = models.TextField()  # the lines as they were, each cut to a length
    text = models.TextField()
    from_point = models.CharField(max_length=80, blank=True)  # of a workspace's changes: what was compared
    to_point = models.CharField(max_length=80, blank=True)
    at = models.DateTimeField()
    sent_at = models.DateTimeField(null=True, blank=True)
    agent = models.ForeignKey(Agent, models.CASCADE, null=True, blank=True, related_name="+")  # that it was sent to
    message = models.ForeignKey(AgentMessage, models.SET_NULL, null=True, blank=True, related_name="+")
    decision = models.ForeignKey("approvals.Decision", models.SET_NULL, null=True, blank=True, related_name="+")

    objects = LineCommentQuerySet.as_manager()

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(workspace__isnull=False) | Q(action__isnull=False), name="line_comment_place"
            ),
            models.CheckConstraint(
                condition=Q(sent_at=None, agent=None) | Q(sent_at__isnull=False, agent__isnull=False),
                name="line_comment_sent",
            ),
        ]
        indexes = [
            models.Index(fields=["workspace", "path", "at"], name="line_comment_of_file"),
            models.Index(fields=["action", "at"], name="line_comment_of_action"),
            models.Index(fields=["user", "sent_at"], name="line_comment_of_user"),
        ]

    def __str__(self):
        return f"a comment on line {self.line} of {self.path}"

    @property
    def shown_path(self) -> str:
        return unquote_to_bytes(self.path).decode("utf-8", "surrogateescape")

    @property
    def lines(self) -> str:
        """The lines' numbers, as in "12" or "12-14"."""
        return str(self.line) if self.line == self.end_line else f"{self.line}-{self.end_line}"

    @property
    def is_draft(self) -> bool:
        return self.sent_at is None

    @property
    def state(self) -> str:
        """draft, sent, fetched (the agent has it) or acknowledged (it said so). Reads `message` or `decision`."""
        if self.is_draft:
            return "draft"
        if self.message:
            return "acknowledged" if self.message.read_at else "fetched" if self.message.given_at else "sent"
        answered = self.decision.action if self.decision else None
        seen = answered is not None and answered.agent_seen_at is not None
        return "fetched" if seen and answered.agent_seen_at >= self.decision.at else "sent"
