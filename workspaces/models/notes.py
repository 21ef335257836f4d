"""Versions of a workspace's notes, and the lessons of a repository."""

import uuid

from django.db import models
from django.db.models import Q

from dashboard.models import Team
from workspaces.models.of_team import OfTeamQuerySet
from workspaces.models.workspaces import Workspace


class NoteVersionQuerySet(models.QuerySet):
    def given(self):
        """Keep those that are or were the file in the workspace; an edit of a workspace at rest is not yet."""
        return self.filter(given_at__isnull=False)

    def newest(self) -> "NoteVersion | None":
        return self.order_by("-number").first()


class NoteVersion(models.Model):
    """The text of a workspace's notes (.handrail/notes.md) as of one time; numbered in the workspace, never changed."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    workspace = models.ForeignKey(Workspace, models.CASCADE, related_name="notes")
    number = models.PositiveIntegerField()
    text = models.TextField(blank=True)
    sha256 = models.CharField(max_length=64, blank=True)  # of the text; "" if there was no file
    by = models.JSONField(default=dict)  # {type, id, label} of its author
    redacted = models.JSONField(default=list, blank=True)  # names of secrets whose values were taken out
    is_cut = models.BooleanField(default=False)  # the file is longer than the kept text
    days = models.PositiveSmallIntegerField(null=True, blank=True)  # for how long it is given; None: without an end
    expires_at = models.DateTimeField(null=True, blank=True)
    given_at = models.DateTimeField(null=True, blank=True)  # since when it is the file in the workspace
    created_at = models.DateTimeField()

    objects = NoteVersionQuerySet.as_manager()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["workspace", "number"], name="note_number_once")]

    def __str__(self):
        return f"notes, version {self.number}"

    def is_expired(self, now) -> bool:
        return self.expires_at is not None and self.expires_at <= now


class LessonState(models.TextChoices):
    PROPOSED = "proposed"
    ACCEPTED = "accepted"
    DECLINED = "declined"
    REMOVED = "removed"


class LessonQuerySet(OfTeamQuerySet):
    def in_force(self, team_id, repository: str, now):
        """Keep what new runs of the repository's workspaces are given, in the order of the numbers."""
        accepted = self.filter(team=team_id, repository=repository, state=LessonState.ACCEPTED)
        return accepted.filter(Q(expires_at=None) | Q(expires_at__gt=now)).order_by("number")


class Lesson(models.Model):
    """A block of a repository's notes: proposed, and in force once a person who saw the difference accepts it."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    team = models.ForeignKey(Team, models.CASCADE, related_name="lessons")
    repository = models.CharField(max_length=500)  # HOST/OWNER/NAME whatever its address, or a path of this machine
    number = models.PositiveIntegerField()
    text = models.TextField()
    sha256 = models.CharField(max_length=64)  # of the text
    state = models.CharField(max_length=16, choices=LessonState, default=LessonState.PROPOSED)
    author = models.JSONField(default=dict)  # {type, id, label} of who wrote the text
    proposed_by = models.JSONField(default=dict)
    workspace = models.ForeignKey(Workspace, models.SET_NULL, null=True, blank=True, related_name="lessons")
    workspace_key = models.CharField(max_length=64, blank=True)
    note_number = models.PositiveIntegerField(null=True, blank=True)  # the version of the notes that it was taken from
    redacted = models.JSONField(default=list, blank=True)  # names of secrets whose values were taken out
    days = models.PositiveSmallIntegerField(null=True, blank=True)
    expires_at = models.DateTimeField(null=True, blank=True)  # set when it is accepted
    decided_by = models.JSONField(default=dict, blank=True)
    decided_at = models.DateTimeField(null=True, blank=True)
    removed_by = models.JSONField(default=dict, blank=True)
    removed_at = models.DateTimeField(null=True, blank=True)
    created_at = models.DateTimeField()

    objects = LessonQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["team", "repository", "number"], name="lesson_number_once"),
            models.CheckConstraint(condition=Q(state__in=LessonState.values), name="lesson_state_known"),
        ]
        indexes = [models.Index(fields=["team", "created_at"], name="lesson_by_time")]

    def __str__(self):
        return f"lesson {self.number} of {self.repository}"

    def is_expired(self, now) -> bool:
        return self.state == LessonState.ACCEPTED and self.expires_at is not None and self.expires_at <= now
