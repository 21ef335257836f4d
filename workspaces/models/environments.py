"""Environments: what workspaces are created from."""

import uuid

from django.db import models
from django.utils.translation import gettext_lazy

from dashboard.models import Team
from workspaces.drivers import capabilities
from workspaces.models.of_team import OfTeamQuerySet


class AgentsTogether(models.TextChoices):
    """What happens when two agents work in one workspace."""

    ALLOW = "allow", gettext_lazy("Allow it")
    WARN = "warn", gettext_lazy("Warn: show it, and tell both agents")
    ONE = "one_at_a_time", gettext_lazy("One at a time: refuse the second")


class Submodules(models.TextChoices):
    """What becomes of the submodules of a source."""

    CLONED = "cloned", gettext_lazy("Cloned")
    LEFT = "left", gettext_lazy("Left as empty folders")


class Lfs(models.TextChoices):
    """What becomes of the files of a source whose content git-lfs keeps elsewhere."""

    LEFT = "left", gettext_lazy("Left as pointers")
    PULLED = "pulled", gettext_lazy("Their content is pulled")


class Storage(models.TextChoices):
    """Where the files of a workspace are while its pod is up."""

    EMPTYDIR = "emptydir", gettext_lazy("On the node, fetched at the end")
    PVC = "pvc", gettext_lazy("On a volume that outlives the pod")


class EnvironmentQuerySet(OfTeamQuerySet):
    def visible_to(self, who):
        """Environments that `who` may see; agents do not see those of connected folders, which they cannot request."""
        environments = super().visible_to(who)
        return environments if who.is_person else environments.to_make_from()

    def to_make_from(self):
        """Environments that a new workspace may be created from."""
        return self.exclude(driver__in=capabilities.drivers_with(own_folder=True))


class Environment(models.Model):
    """What a workspace is created from. Rows are immutable: a change creates the next version."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    team = models.ForeignKey(Team, models.CASCADE, related_name="environments")
    name = models.CharField(max_length=80)
    version = models.PositiveIntegerField(default=1)
    driver = models.CharField(max_length=32, default=capabilities.DEFAULT)
    image = models.CharField(max_length=200, blank=True)
    runtime_class = models.CharField(max_length=63, blank=True)  # what runs its pods or containers; "": the usual
    storage = models.CharField(max_length=8, choices=Storage, default=Storage.EMPTYDIR, blank=True)  # of a pod's files
    build = models.JSONField(default=dict, blank=True)  # {"dockerfile", "args", "target"} of an image that is a folder
    repository = models.CharField(max_length=500, blank=True)
    ref = models.CharField(max_length=200, blank=True)
    # Whether commits and tags made in workspaces are signed, if the team has a key for that.
    sign_commits = models.BooleanField(default=True)
    submodules = models.CharField(max_length=8, choices=Submodules, default=Submodules.CLONED, blank=True)
    lfs = models.CharField(max_length=8, choices=Lfs, default=Lfs.LEFT, blank=True)
    setup = models.TextField(blank=True)
    maintenance = models.TextField(blank=True)
    maintenance_seconds = models.PositiveIntegerField(default=0, blank=True)  # 0: the installation's time limit
    checks = models.JSONField(default=dict, blank=True)  # {name: shell command}
    egress = models.JSONField(default=dict, blank=True)  # {"setup": [host…], "agent": [host…]}
    # The proxy by which its workspaces leave, of HANDRAIL_UPSTREAMS; "": the installation's own.
    upstream = models.CharField(max_length=40, blank=True, default="", db_default="")
    limits = models.JSONField(default=dict, blank=True)  # {"memory_bytes", "cpus", "pids", "disk_bytes"}
    variables = models.JSONField(default=dict, blank=True)  # {name: value}; plain, for every program; not secret
    working_directory = models.CharField(max_length=500, blank=True)  # below /workspace; "" is /workspace itself
    snapshot_ignore = models.TextField(blank=True)  # gitignore patterns of files that snapshots leave out
    minimum_isolation = models.CharField(max_length=20, default="namespace")
    services = models.JSONField(default=dict, blank=True)  # {name: shell command}; started with each run
    secrets = models.JSONField(default=dict, blank=True)  # {"setup": [name…], "agent": [name…]}
    agents = models.JSONField(default=list, blank=True)  # names; with secrets, only these agents create workspaces
    agent_programs = models.JSONField(default=list, blank=True)  # NAME@VERSION of agents that Handrail may start
    # What the model relay gives those: {provider: {"secret": name, "models": [name or pattern with *…]}}
    model_access = models.JSONField(default=dict, blank=True)
    agents_together = models.CharField(
        max_length=16, choices=AgentsTogether, default=AgentsTogether.WARN, blank=True
    )  # what happens when two agents work in one workspace
    idle_seconds = models.PositiveIntegerField(default=0)  # 0: the installation's setting
    stop_seconds = models.PositiveIntegerField(default=0)  # paused time before a stop; 0: the installation's setting
    # Whether the files of a workspace leave the host when its run has ended; its changes are kept as a patch.
    ephemeral = models.BooleanField(default=False)
    # What new homes begin with, beside what the setup installs.
    home_layer = models.ForeignKey("HomeLayer", models.PROTECT, null=True, blank=True, related_name="environments")
    created_at = models.DateTimeField(auto_now_add=True)

    objects = EnvironmentQuerySet.as_manager()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["team", "name", "version"], name="environment_version_once")]

    def __str__(self):
        return f"{self.name} v{self.version}"

    @property
    def capabilities(self) -> capabilities.Capabilities:
        """What its driver can do on any host."""
        return capabilities.of(self.driver)
