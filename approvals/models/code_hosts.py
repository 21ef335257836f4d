"""Tasks at code hosts: repositories that give tasks, whose the accounts are, threads with their entries and posts."""

import uuid

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy

from approvals.models.tasks import Task
from dashboard.models import Team
from workspaces.models import OfTeamQuerySet, PullRequest

MAX_ADDRESS = 500
MAX_WORD = 60
MAX_LOGIN = 100


class HostKind(models.TextChoices):
    GITHUB = "github", "GitHub"
    GITLAB = "gitlab", "GitLab"
    GITEA = "gitea", "Gitea"
    FORGEJO = "forgejo", "Forgejo"


class ToRead(OfTeamQuerySet):
    def due(self, now):
        """Return the rows that are to be read again at the host."""
        return self.filter(read_at__lte=now)


class HostedRepository(models.Model):
    """A repository at a code host in which a label or a mention starts a task.

    `address` is HTTP(S)://HOST[:PORT]/OWNER/NAME, as `code_hosts.Repository` writes it.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    team = models.ForeignKey(Team, models.CASCADE, related_name="+")
    kind = models.CharField(max_length=10, choices=HostKind)
    address = models.CharField(max_length=MAX_ADDRESS)
    environment = models.CharField(max_length=80)
    label = models.CharField(max_length=MAX_WORD, blank=True)  # "": none starts a task
    mention = models.CharField(max_length=MAX_WORD, default="@handrail")  # what a line to Handrail begins with
    attempts = models.JSONField(default=list)  # [{agent?, model?}] of a task from here
    minutes = models.PositiveIntegerField(null=True, blank=True)  # of work of each agent
    secret_number = models.PositiveIntegerField(default=1)  # which webhook secret is in force: it is derived
    created_at = models.DateTimeField()
    # What was read and what came:
    read_at = models.DateTimeField(null=True, blank=True, db_index=True)  # when it is read next
    read_to = models.DateTimeField()  # comments from before are known
    problem = models.CharField(max_length=500, blank=True)  # why it could not be read the last time
    delivered_at = models.DateTimeField(null=True, blank=True)  # the last webhook
    refused = models.PositiveIntegerField(default=0)  # webhooks with a wrong signature
    refused_at = models.DateTimeField(null=True, blank=True)

    objects = ToRead.as_manager()

    class Meta:
        verbose_name_plural = "hosted repositories"
        constraints = [
            models.UniqueConstraint(fields=["team", "address"], name="hosted_repository_once"),
            models.CheckConstraint(condition=Q(kind__in=HostKind.values), name="hosted_repository_kind_known"),
        ]

    def __str__(self):
        return self.address.partition("://")[2]

    @property
    def origin(self) -> str:
        scheme, _, rest = self.address.partition("://")
        return f"{scheme}://{rest.partition('/')[0]}"


class HostAccount(models.Model):
    """Whose an account at a code host is. `account` is the host's id, noted when the account is first seen."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    team = models.ForeignKey(Team, models.CASCADE, related_name="+")
    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="+")
    origin = models.CharField(max_length=MAX_ADDRESS)  # of the host
    login = models.CharField(max_length=MAX_LOGIN)  # in lower case
    account = models.CharField(max_length=40, blank=True)

    objects = OfTeamQuerySet.as_manager()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["team", "origin", "login"], name="host_account_once")]

    def __str__(self):
        return self.login


class HostDelivery(models.Model):
    """A webhook that came, so that it is answered once: by its id, and by its bytes under another one."""

    repository = models.ForeignKey(HostedRepository, models.CASCADE, related_name="deliveries")
    name = models.CharField(max_length=100)  # the host's id of it
    sha256 = models.CharField(max_length=64)  # of its bytes
    at = models.DateTimeField()

    class Meta:
        verbose_name_plural = "host deliveries"
        constraints = [
            models.UniqueConstraint(fields=["repository", "name"], name="host_delivery_once"),
            models.UniqueConstraint(fields=["repository", "sha256"], name="host_delivery_bytes_once"),
        ]

    def __str__(self):
        return self.name


class ThreadState(models.TextChoices):
    OPEN = "open", gettext_lazy("open")
    MERGED = "merged", gettext_lazy("merged")
    CLOSED = "closed", gettext_lazy("closed")


class TaskThread(models.Model):
    """Where a task is talked about at a code host: its issue, and the pull request of its chosen attempt."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    task = models.OneToOneField(Task, models.CASCADE, related_name="thread")
    team = models.ForeignKey(Team, models.CASCADE, related_name="+")
    repository = models.ForeignKey(HostedRepository, models.SET_NULL, null=True, blank=True, related_name="threads")
    number = models.PositiveIntegerField(null=True, blank=True)  # of the issue
    pull = models.ForeignKey(PullRequest, models.SET_NULL, null=True, blank=True, related_name="+")
    state = models.CharField(max_length=8, choices=ThreadState, default=ThreadState.OPEN)  # of the pull request
    sha = models.CharField(max_length=64, blank=True)  # of the newest commit of the pull request there
    checks = models.JSONField(default=list, blank=True)  # of it: [{name, state, url}]
    # Whether checks and comments go to the agent, and as whom: the person who chose that.
    follower = models.ForeignKey(settings.AUTH_USER_MODEL, models.SET_NULL, null=True, blank=True, related_name="+")
    rounds = models.PositiveSmallIntegerField(default=0)  # messages to the agent
    pushes = models.PositiveSmallIntegerField(default=0)  # the round whose work was last pushed
    read_at = models.DateTimeField(null=True, blank=True, db_index=True)  # when it is read next; None: it is over
    problem = models.CharField(max_length=500, blank=True)  # why it could not be read the last time
    archived_at = models.DateTimeField(null=True, blank=True)  # when its workspace was, after the end
    changed_at = models.DateTimeField()

    objects = ToRead.as_manager()

    def __str__(self):
        return f"thread of {self.task_id}"

    @property
    def failed_checks(self) -> list[dict]:
        return [check for check in self.checks if check["state"] == "failed"]


class EntryKind(models.TextChoices):
    COMMENT = "comment", gettext_lazy("Comment")
    REVIEW = "review", gettext_lazy("Review comment")
    CHECK = "check", gettext_lazy("Failed check")


class ThreadEntry(models.Model):
    """Something from a thread: a comment, a comment of a review, or a failed check. Each is taken once."""

    id = models.BigAutoField(primary_key=True)
    thread = models.ForeignKey(TaskThread, models.CASCADE, related_name="entries")
    key = models.CharField(max_length=200)
    kind = models.CharField(max_length=8, choices=EntryKind)
    author = models.CharField(max_length=MAX_LOGIN, blank=True)  # the account, or the name of the check
    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.SET_NULL, null=True, blank=True, related_name="+")
    text = models.TextField(blank=True)
    path = models.CharField(max_length=300, blank=True)
    line = models.PositiveIntegerField(null=True, blank=True)
    url = models.CharField(max_length=MAX_ADDRESS, blank=True)
    at = models.DateTimeField()
    for_agent = models.BooleanField(default=False)  # it goes to the agent
    sent_at = models.DateTimeField(null=True, blank=True)  # to the agent
    outcome = models.CharField(max_length=300, blank=True)  # what came of a line to Handrail

    class Meta:
        ordering = ["pk"]
        verbose_name_plural = "thread entries"
        constraints = [models.UniqueConstraint(fields=["thread", "key"], name="thread_entry_once")]

    def __str__(self):
        return self.key


class ThreadPost(models.Model):
    """A comment of ours in a thread, written once: if `posted_at` was not set, its mark in the thread shows it."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    thread = models.ForeignKey(TaskThread, models.CASCADE, related_name="posts")
    key = models.CharField(max_length=200)
    text = models.TextField()
    digest = models.CharField(max_length=64, blank=True)  # of the call that can be answered in the thread
    created_at = models.DateTimeField()
    posted_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["created_at"]
        constraints = [models.UniqueConstraint(fields=["thread", "key"], name="thread_post_once")]

    def __str__(self):
        return self.key
