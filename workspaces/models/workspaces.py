"""Workspaces, their labels, and saved views of their list."""

import uuid
from urllib.parse import quote

from django.conf import settings
from django.core.validators import RegexValidator
from django.db import models
from django.db.models import Q

from dashboard.database.row_locks import LockingQuerySet
from dashboard.models import Agent, Team
from workspaces.drivers import capabilities
from workspaces.models.environments import Environment
from workspaces.models.runners import Runner

KEY_PATTERN = r"[a-z0-9][a-z0-9._-]{0,63}"


class State(models.TextChoices):
    CREATING = "creating"
    SETTING_UP = "setting_up"
    READY = "ready"
    PAUSED = "paused"
    STOPPED = "stopped"
    ARCHIVED = "archived"  # its files are in its newest snapshot alone, none is on a host
    FAILED = "failed"


class StateCode(models.TextChoices):
    """The meaning of Workspace.reason, where code depends on it."""

    UNREACHABLE = "unreachable"  # its host cannot tell the state of its programs
    BACKEND_LOST = "backend_lost"  # its programs go on, and nothing can be started or ended: its engine is away
    HELD_UP = "held_up"  # somebody else stopped its programs, or took its folder away
    NOT_CLEARED = "not_cleared"  # it has ended, and its remains could not be cleaned up yet

    @classmethod
    def out_of_reach(cls) -> list[str]:
        """Return the codes of a workspace that is up and cannot be used as usual until something is mended."""
        return [cls.UNREACHABLE, cls.BACKEND_LOST, cls.HELD_UP]


class WorkspaceQuerySet(LockingQuerySet):
    def update(self, **fields):
        """Reset `reason_code` with a new reason that comes without one, so that the two never disagree."""
        if "reason" in fields:
            fields.setdefault("reason_code", "")
        return super().update(**fields)

    def visible_to(self, who):
        workspaces = self.filter(team_id__in=who.team_ids)
        return workspaces if who.is_person else workspaces.filter(who.workspace_filter())

    def kept(self):
        return self.filter(trashed_at=None)

    def connected_folders(self):
        """Those whose files are a person's folder."""
        return self.filter(environment__driver__in=capabilities.drivers_with(own_folder=True))

    def not_connected_folders(self):
        return self.exclude(environment__driver__in=capabilities.drivers_with(own_folder=True))

    def in_trash(self):
        return self.filter(trashed_at__isnull=False, purged_at=None)


class Workspace(models.Model):
    """A durable place where an agent works, with a key chosen by its creator. The trash is a date, not a state."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    team = models.ForeignKey(Team, models.CASCADE, related_name="workspaces")
    key = models.CharField(max_length=64, validators=[RegexValidator(rf"^{KEY_PATTERN}\Z")])
    description = models.CharField(max_length=500, blank=True)
    environment = models.ForeignKey(Environment, models.PROTECT, related_name="workspaces")
    runner = models.ForeignKey(Runner, models.PROTECT, null=True, blank=True, related_name="workspaces")
    placed_at = models.DateTimeField(null=True, blank=True)  # since when its files are on the host of its runner
    # Who acts for it: raised whenever another runner takes it over. What was started under a lower one is refused.
    lead_epoch = models.PositiveBigIntegerField(default=0)
    # What a lost host still has of it: {host, since, snapshot[, found]} (services/hosts/owed.py); {} if nothing.
    owed = models.JSONField(default=dict, blank=True)
    state = models.CharField(max_length=16, choices=State, default=State.CREATING)
    reason = models.TextField(blank=True)  # why it is in this state, as a message
    reason_code = models.CharField(max_length=16, choices=StateCode, blank=True)
    labels = models.JSONField(default=dict, blank=True)  # {k: v}; queried through WorkspaceLabel
    # {"git", "ref", "sha", "default_branch", "submodules"} (git/submodules.py), {"upload"}, {"path"} or {}.
    source = models.JSONField(default=dict, blank=True)
    # Owner of its files when the runner is root; two workspaces never share a uid.
    uid = models.PositiveIntegerField(unique=True, null=True, blank=True)
    # What files of its repository said about its set-up at creation: [provisioning.repository_files.Suggestion].
    repository_files = models.JSONField(default=list, blank=True)
    base = models.JSONField(default=dict, blank=True)  # its root file system: {image, digest, layer, layer_digest}
    # What its home began with. Its environment's newest version may have another one.
    home_layer = models.ForeignKey("HomeLayer", models.SET_NULL, null=True, blank=True, related_name="+")
    disk_generation = models.PositiveIntegerField(default=0)
    baseline = models.ForeignKey("Snapshot", models.SET_NULL, null=True, blank=True, related_name="+")
    head = models.ForeignKey("Snapshot", models.SET_NULL, null=True, blank=True, related_name="+")
    next_snapshot = models.PositiveIntegerField(default=1)
    created_by_agent = models.ForeignKey(Agent, models.SET_NULL, null=True, blank=True, related_name="created")
    created_by_user = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.SET_NULL, null=True, blank=True, related_name="+"
    )
    # The member of the team whom others ask about it; by default the person who created it, or whose agent did.
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, models.SET_NULL, null=True, blank=True, related_name="+")
    ticket = models.CharField(max_length=100, blank=True)  # its id in the team's tracker (Team.ticket_url)
    forked_from = models.ForeignKey("self", models.SET_NULL, null=True, blank=True, related_name="forks")
    bound_agents = models.ManyToManyField(Agent, blank=True, related_name="bound_workspaces")
    created_at = models.DateTimeField(auto_now_add=True)
    last_active_at = models.DateTimeField(null=True, blank=True)
    awake_until = models.DateTimeField(null=True, blank=True)
    # Why the snapshot at the end of its last run is missing, as a message; empty when there is one.
    missing_snapshot = models.TextField(blank=True)
    proof = models.JSONField(default=dict, blank=True)  # the last one: {at, snapshot, entries, differ, names, how}
    alarm = models.JSONField(default=dict, blank=True)  # a proof that found differences and was not answered yet
    # The last measurement: {at, bytes, shared: [{id, key, bytes}], frozen, ports, processes}.
    vitals = models.JSONField(default=dict, blank=True)
    # How its files are watched while it is up: {how: fanotify | guest | inotify | off, why}; {} while it is not.
    watching = models.JSONField(default=dict, blank=True)
    watch_alarms = models.PositiveIntegerField(default=0)  # walks that found what the watch had missed; then it is off
    # Why the agent in a connected folder is not gated, as a message (approvals.connect.hook_watch); empty when it is.
    hook_problem = models.TextField(blank=True)
    # A connected folder: whether a person wants the agent's calls held in a box, and why that was not possible.
    held = models.BooleanField(default=False)
    not_held = models.TextField(blank=True)
    # The remotes of a connected folder's repository as a person saw them: {name: URL} (services/folders.py).
    remotes = models.JSONField(default=dict, blank=True)
    # Ports of the host's loopback that the box of a connected folder reaches (services/host_ports.py).
    host_ports = models.JSONField(default=list, blank=True)
    hook_problem_at = models.DateTimeField(null=True, blank=True)
    warned_at = models.DateTimeField(null=True, blank=True)  # of the move to the trash when unused; any use cancels it
    home_swept_at = models.DateTimeField(null=True, blank=True)
    trashed_at = models.DateTimeField(null=True, blank=True)
    purge_at = models.DateTimeField(null=True, blank=True)
    purged_at = models.DateTimeField(null=True, blank=True)  # a tombstone: the row stays, the files are deleted

    objects = WorkspaceQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["team", "key"], condition=Q(trashed_at=None), name="workspace_key_once"),
            models.CheckConstraint(condition=Q(state__in=State.values), name="workspace_state_known"),
        ]
        indexes = [
            models.Index(fields=["team", "state"], name="workspace_by_state"),
            models.Index(fields=["team", "created_at"], name="workspace_by_time"),
            models.Index(fields=["purge_at"], name="workspace_by_purge"),
        ]

    def __str__(self):
        return self.key

    @property
    def own_folder(self) -> str:
        """The path of the person's folder that its files are; "" if Handrail keeps them."""
        return self.source.get("path", "")

    @property
    def remote(self) -> str:
        """The git address that it came from and can push to, of a fork its origin's; "" if there is none.

        `remote` of the source keeps it where a later revision was an upload.
        """
        source = self.source
        return source.get("git") or source.get("remote") or (source.get("fork") or {}).get("git") or ""

    @property
    def default_branch(self) -> str:
        """The default branch of `remote` as it was when it was cloned; "" if that is not known."""
        source = self.source
        return source.get("default_branch") or (source.get("fork") or {}).get("default_branch") or ""

    @property
    def ticket_link(self) -> str:
        """The address of its ticket; "" without a ticket, or if the team has set no address."""
        pattern = self.team.ticket_url
        return pattern.replace("{ticket}", quote(self.ticket)) if self.ticket and pattern else ""


class WorkspaceLabel(models.Model):
    """A label of `Workspace.labels` as a row, for filters: JSON columns are never queried."""

    workspace = models.ForeignKey(Workspace, models.CASCADE, related_name="label_rows")
    name = models.CharField(max_length=64)
    value = models.CharField(max_length=200)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["workspace", "name"], name="label_once")]
        indexes = [models.Index(fields=["name", "value"], name="label_by_value")]

    def __str__(self):
        return f"{self.name}:{self.value}"


class SavedView(models.Model):
    """Filters and order of the workspaces list that a person gave a name: the query string of the list's address."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="workspace_views")
    name = models.CharField(max_length=60)
    query = models.CharField(max_length=1000)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["user", "name"], name="saved_view_once")]

    def __str__(self):
        return self.name
