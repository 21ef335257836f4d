"""Secrets, the values that programs were given, and the files they were found in."""

import uuid

from django.db import models

from dashboard.models import Team
from workspaces.models.of_team import OfTeamQuerySet
from workspaces.models.workspaces import Workspace


class Scope(models.TextChoices):
    SETUP = "setup", "Setup"
    AGENT = "agent", "Agent"
    CODE_HOST = "host", "Handrail, for repositories"
    MODELS = "models", "Handrail, for models"
    SIGNING = "signing", "Handrail, for signatures of commits"


class CodeHostKind(models.TextChoices):
    """Which API a code host has; Forgejo's is that of Gitea."""

    GITHUB = "github", "GitHub"
    GITLAB = "gitlab", "GitLab"
    GITEA = "gitea", "Gitea"
    FORGEJO = "forgejo", "Forgejo"


class Secret(models.Model):
    """An encrypted value for programs of one phase, in workspaces whose environment names it; never shown again."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    team = models.ForeignKey(Team, models.CASCADE, related_name="secrets")
    name = models.CharField(max_length=80)  # also the environment variable that holds it
    scope = models.CharField(max_length=8, choices=Scope)
    # The only scheme, host and port that a credential for repositories is for (`secret_origins.check`).
    origin = models.CharField(max_length=300, default="", blank=True)
    # With an ssh origin: the keys that its host may show, one on a line, and the public part of the value.
    host_key = models.TextField(default="", blank=True)
    public_key = models.TextField(default="", blank=True)
    # With an http(s) origin: which API the host has, where a lead stated it; empty: the host is asked.
    code_host = models.CharField(max_length=8, choices=CodeHostKind, default="", blank=True)
    value = models.BinaryField()
    version = models.UUIDField(default=uuid.uuid4)  # changes with the value
    expires_at = models.DateTimeField(null=True, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)
    set_at = models.DateTimeField(null=True)
    set_by = models.JSONField(default=dict)  # {type, id, label}
    last_used_at = models.DateTimeField(null=True, editable=False)  # when it was last given to a program
    warned_expiry = models.DateTimeField(null=True, editable=False)  # the expiry that people were warned about

    objects = OfTeamQuerySet.as_manager()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["team", "name", "scope"], name="secret_name_once")]

    def __str__(self):
        return self.name


class HandedSecret(models.Model):
    """A secret value that programs of a workspace were given; their files and output are searched for it.

    It is an encrypted copy, because the value of a replaced or deleted secret may still be in a file.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    workspace = models.ForeignKey(Workspace, models.CASCADE, related_name="handed_secrets")
    name = models.CharField(max_length=80)
    scope = models.CharField(max_length=8, choices=Scope)
    version = models.UUIDField()
    value = models.BinaryField()
    handed_at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["workspace", "version"], name="secret_handed_once")]

    def __str__(self):
        return self.name


class SecretFinding(models.Model):
    """A file with a secret's value, which blocks snapshots until a lead allows the value there."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    workspace = models.ForeignKey(Workspace, models.CASCADE, related_name="secret_findings")
    handed = models.ForeignKey(HandedSecret, models.CASCADE, related_name="findings")
    path = models.TextField()  # for display; paths that differ only in non-UTF-8 bytes differ in `path_sha256`
    path_sha256 = models.CharField(max_length=64)
    found_at = models.DateTimeField()
    kept_at = models.DateTimeField(null=True, blank=True)
    kept_by = models.JSONField(default=dict, blank=True)  # {type, id, label}

    class Meta:
        constraints = [models.UniqueConstraint(fields=["handed", "path_sha256"], name="secret_found_once")]

    def __str__(self):
        return f"{self.handed} in {self.path}"
