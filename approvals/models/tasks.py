"""Tasks that people give: what is to be done in which repository, and the attempts at it."""

import uuid

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy

from approvals.models.agent_runs import AgentRun
from dashboard.models import Team
from workspaces.models import OfTeamQuerySet, Workspace

MAX_TITLE = 200
MAX_SOURCE = 300
MAX_ATTEMPTS = 10


class TaskEnd(models.TextChoices):
    MERGED = "merged", gettext_lazy("merged")
    CANCELLED = "cancelled", gettext_lazy("cancelled")
    CLOSED = "closed", gettext_lazy("closed")  # its pull request was, without a merge


class TaskQuerySet(OfTeamQuerySet):
    def visible_to(self, who):
        """Return the tasks of the person's teams; an agent sees those with an attempt in its own workspaces."""
        rows = super().visible_to(who)
        if who.is_person:
            return rows
        own = TaskAttempt.objects.filter(workspace__in=Workspace.objects.visible_to(who))
        return rows.filter(pk__in=own.values("task"))


class Task(models.Model):
    """Something to do in a repository. Its state is not stored: `approvals.reports.standing` derives it."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    team = models.ForeignKey(Team, models.CASCADE, related_name="tasks")
    title = models.CharField(max_length=MAX_TITLE)
    text = models.TextField()
    source = models.CharField(max_length=MAX_SOURCE, blank=True)  # where it comes from, such as a ticket's address
    repository = models.CharField(max_length=1000, blank=True)
    base = models.CharField(max_length=300, blank=True)  # the ref that attempts begin with; "": the default branch
    commit = models.CharField(max_length=64, blank=True)  # what `base` was for the first clone; the others follow it
    environment = models.CharField(max_length=80)
    budget = models.JSONField(default=dict, blank=True)  # of each attempt: {minutes?, tokens?, cost?}
    reviewer = models.JSONField(default=dict, blank=True)  # who reviews each attempt: {agent, model?}
    asked_by = models.ForeignKey(settings.AUTH_USER_MODEL, models.SET_NULL, null=True, blank=True, related_name="+")
    end = models.CharField(max_length=10, choices=TaskEnd, blank=True)  # "" while it is open
    created_at = models.DateTimeField()
    changed_at = models.DateTimeField()

    objects = TaskQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["team", "source"], condition=~Q(source=""), name="task_source_once"),
            models.CheckConstraint(condition=Q(end__in=["", *TaskEnd.values]), name="task_end_known"),
        ]
        indexes = [models.Index(fields=["team", "created_at"], name="task_by_time")]

    def __str__(self):
        return self.title


class TaskAttempt(models.Model):
    """One workspace in which somebody works on a task: an agent that Handrail starts, or whoever comes."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    task = models.ForeignKey(Task, models.CASCADE, related_name="attempts")
    number = models.PositiveSmallIntegerField()
    workspace = models.OneToOneField(Workspace, models.CASCADE, related_name="attempt")
    run = models.OneToOneField(AgentRun, models.SET_NULL, null=True, blank=True, related_name="attempt")
    chosen = models.BooleanField(default=False)
    checked_at = models.DateTimeField(null=True, blank=True)  # when its checks were started after its agent was done
    review = models.OneToOneField(AgentRun, models.SET_NULL, null=True, blank=True, related_name="review_of")
    reviewed_at = models.DateTimeField(null=True, blank=True)  # when the reviewer's findings were taken
    findings = models.PositiveSmallIntegerField(default=0)  # of the reviewer, that became drafts of comments
    review_problem = models.CharField(max_length=500, blank=True)  # why there was no review, or only a part of it
    thrown_at = models.DateTimeField(null=True, blank=True)  # since when it is in the trash, or on its way there

    class Meta:
        ordering = ["number"]
        constraints = [
            models.UniqueConstraint(fields=["task", "number"], name="task_attempt_once"),
            models.UniqueConstraint(fields=["task"], condition=Q(chosen=True), name="task_attempt_one_chosen"),
        ]

    def __str__(self):
        return f"attempt {self.number} at {self.task_id}"
