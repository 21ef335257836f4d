"""Where agents work: environments, workspaces, their runs, snapshots, commands, and the effects that move them."""

import uuid
from datetime import timedelta

from django.conf import settings
from django.core.validators import RegexValidator
from django.db import models
from django.db.models import Q

from dashboard import clock
from dashboard.models import Agent, Team

SILENT = timedelta(seconds=30)  # without a beat of a runner's heart
KEY_PATTERN = r"[a-z0-9][a-z0-9._-]{0,63}"


class OfTeamQuerySet(models.QuerySet):
    """Rows that hang on a team directly."""

    def visible_to(self, who):
        return self.filter(team_id__in=who.team_ids)


class Runner(models.Model):
    """The daemon of one host, and what that host can do."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    host = models.CharField(max_length=120, unique=True)
    boot_id = models.CharField(max_length=64, blank=True)
    pid = models.IntegerField(default=0)
    heartbeat_at = models.DateTimeField(null=True, blank=True)
    version = models.CharField(max_length=32, blank=True)
    unclear = models.JSONField(default=list, blank=True)  # sentences: what runs here and nobody can tell whose it is
    capabilities = models.JSONField(default=dict)  # {driver: {available, isolation, reason, what_to_do, notes}}

    def __str__(self):
        return self.host

    @property
    def is_silent(self) -> bool:
        """Its heart beats every two seconds, and was not heard for long: it does not run, or its host is away."""
        return self.heartbeat_at is None or clock.now() - self.heartbeat_at > SILENT


class Environment(models.Model):
    """What a workspace is made from. Rows do not change: a change is the next version."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    team = models.ForeignKey(Team, models.CASCADE, related_name="environments")
    name = models.CharField(max_length=80)
    version = models.PositiveIntegerField(default=1)
    driver = models.CharField(max_length=32, default="sandbox")
    image = models.CharField(max_length=200, blank=True)
    repository = models.CharField(max_length=500, blank=True)
    ref = models.CharField(max_length=200, blank=True)
    setup = models.TextField(blank=True)
    maintenance = models.TextField(blank=True)
    checks = models.JSONField(default=dict, blank=True)  # {name: shell command}
    egress = models.JSONField(default=dict, blank=True)  # {"setup": [host…], "agent": [host…]}
    limits = models.JSONField(default=dict, blank=True)  # {"memory_bytes", "cpus", "pids", "disk_bytes"}
    minimum_isolation = models.CharField(max_length=20, default="namespace")
    services = models.JSONField(
        default=dict, blank=True
    )  # {name: shell command}: programs that come back at each start
    secrets = models.JSONField(default=dict, blank=True)  # {"setup": [name…], "agent": [name…]}
    idle_seconds = models.PositiveIntegerField(default=0)  # 0: the installation's setting
    stop_seconds = models.PositiveIntegerField(default=0)  # asleep for so long, it stops; 0: the installation's setting
    created_at = models.DateTimeField(auto_now_add=True)

    objects = OfTeamQuerySet.as_manager()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["team", "name", "version"], name="environment_version_once")]

    def __str__(self):
        return f"{self.name} v{self.version}"


class State(models.TextChoices):
    CREATING = "creating"
    SETTING_UP = "setting_up"
    READY = "ready"
    PAUSED = "paused"
    STOPPED = "stopped"
    FAILED = "failed"


class WorkspaceQuerySet(models.QuerySet):
    def visible_to(self, who):
        workspaces = self.filter(team_id__in=who.team_ids)
        return workspaces if who.is_person else workspaces.filter(who.workspace_filter())

    def kept(self):
        return self.filter(trashed_at=None)

    def in_trash(self):
        return self.filter(trashed_at__isnull=False, purged_at=None)


class Workspace(models.Model):
    """The durable place where an agent works, named by its caller. The trash is a date, not a state."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    team = models.ForeignKey(Team, models.CASCADE, related_name="workspaces")
    key = models.CharField(max_length=64, validators=[RegexValidator(rf"^{KEY_PATTERN}\Z")])
    description = models.CharField(max_length=500, blank=True)
    environment = models.ForeignKey(Environment, models.PROTECT, related_name="workspaces")
    runner = models.ForeignKey(Runner, models.PROTECT, null=True, blank=True, related_name="workspaces")
    state = models.CharField(max_length=16, choices=State, default=State.CREATING)
    reason = models.TextField(blank=True)  # why it is in this state, in words
    labels = models.JSONField(default=dict, blank=True)  # {k: v}; queried through WorkspaceLabel
    source = models.JSONField(default=dict, blank=True)  # {"git", "ref", "sha"} or {"upload"} or {} or {"path"}
    # Owner of its files when the runner is root; one workspace's processes never share a uid with another's.
    uid = models.PositiveIntegerField(unique=True, null=True, blank=True)
    base = models.JSONField(default=dict, blank=True)  # what its root is made of: {image, digest, layer, layer_digest}
    disk_generation = models.PositiveIntegerField(default=0)
    baseline = models.ForeignKey("Snapshot", models.SET_NULL, null=True, blank=True, related_name="+")
    head = models.ForeignKey("Snapshot", models.SET_NULL, null=True, blank=True, related_name="+")
    next_snapshot = models.PositiveIntegerField(default=1)
    created_by_agent = models.ForeignKey(Agent, models.SET_NULL, null=True, blank=True, related_name="created")
    created_by_user = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.SET_NULL, null=True, blank=True, related_name="+"
    )
    bound_agents = models.ManyToManyField(Agent, blank=True, related_name="bound_workspaces")
    created_at = models.DateTimeField(auto_now_add=True)
    last_active_at = models.DateTimeField(null=True, blank=True)
    awake_until = models.DateTimeField(null=True, blank=True)
    owed = models.TextField(blank=True)  # why the snapshot at the end of its last run is missing, in words
    proof = models.JSONField(default=dict, blank=True)  # the last one: {at, snapshot, entries, differ, names, how}
    alarm = models.JSONField(default=dict, blank=True)  # a proof that did not hold and that nobody has answered yet
    vitals = models.JSONField(default=dict, blank=True)  # as measured: {at, bytes, frozen, ports}
    warned_at = models.DateTimeField(null=True, blank=True)  # that it goes to the trash, unused; use takes that back
    home_swept_at = models.DateTimeField(null=True, blank=True)
    trashed_at = models.DateTimeField(null=True, blank=True)
    purge_at = models.DateTimeField(null=True, blank=True)
    purged_at = models.DateTimeField(null=True, blank=True)  # a tombstone: the row stays, the files are gone

    objects = WorkspaceQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["team", "key"], condition=Q(trashed_at=None), name="workspace_key_once"),
            models.CheckConstraint(condition=Q(state__in=State.values), name="workspace_state_known"),
        ]
        indexes = [
            models.Index(fields=["team", "state"], name="workspace_by_state"),
            models.Index(fields=["purge_at"], name="workspace_by_purge"),
        ]

    def __str__(self):
        return self.key


class WorkspaceLabel(models.Model):
    """`Workspace.labels` as rows, for filters: JSON columns are never queried."""

    workspace = models.ForeignKey(Workspace, models.CASCADE, related_name="label_rows")
    name = models.CharField(max_length=64)
    value = models.CharField(max_length=200)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["workspace", "name"], name="label_once")]
        indexes = [models.Index(fields=["name", "value"], name="label_by_value")]

    def __str__(self):
        return f"{self.name}:{self.value}"


class Run(models.Model):
    """One period in which a workspace was up."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    workspace = models.ForeignKey(Workspace, models.CASCADE, related_name="runs")
    runner = models.ForeignKey(Runner, models.PROTECT, related_name="+")
    epoch = models.PositiveIntegerField(default=0)
    owner = models.JSONField(default=dict)  # the driver's record: host, boot id, pid, start time
    started_at = models.DateTimeField()
    ready_at = models.DateTimeField(null=True, blank=True)
    ended_at = models.DateTimeField(null=True, blank=True)
    end_reason = models.CharField(max_length=200, blank=True)
    cold = models.BooleanField(default=True)
    setup_seconds = models.FloatField(null=True, blank=True)
    first_useful_at = models.DateTimeField(null=True, blank=True)
    proof_entries = models.PositiveIntegerField(null=True, blank=True)
    proof_differ = models.PositiveIntegerField(null=True, blank=True)
    network = models.CharField(max_length=300, blank=True)  # why its programs cannot reach the proxy, in words

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["workspace"], condition=Q(ended_at=None), name="run_one_open"),
        ]

    def __str__(self):
        return f"run of {self.workspace_id} from {self.started_at}"


class Snapshot(models.Model):
    """A point in time of a workspace's files, numbered in its workspace."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    workspace = models.ForeignKey(Workspace, models.CASCADE, related_name="snapshots")
    number = models.PositiveIntegerField()
    tree = models.BinaryField(max_length=32)
    parent = models.ForeignKey("self", models.SET_NULL, null=True, blank=True, related_name="children")
    kind = models.CharField(max_length=24)  # setup, action, manual, end, safety, restored, fork, found, kept
    label = models.CharField(max_length=120, blank=True)
    entries = models.PositiveBigIntegerField()
    bytes = models.PositiveBigIntegerField()
    added_bytes = models.PositiveBigIntegerField()
    skipped = models.JSONField(default=list, blank=True)
    pinned = models.BooleanField(default=False)
    by = models.JSONField(default=dict)  # {type, id, label}: who asked for it
    created_at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["workspace", "number"], name="snapshot_number_once")]
        indexes = [models.Index(fields=["tree"], name="snapshot_by_tree")]

    def __str__(self):
        return f"snapshot {self.number}"

    @property
    def tree_hex(self) -> str:
        return bytes(self.tree).hex()


class Manifest(models.Model):
    """The provenance record of a snapshot, or of a resume."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    snapshot = models.OneToOneField(Snapshot, models.CASCADE, null=True, blank=True, related_name="manifest")
    run = models.OneToOneField(Run, models.CASCADE, null=True, blank=True, related_name="manifest")
    body = models.JSONField()
    sha256 = models.CharField(max_length=64)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(snapshot=None, run__isnull=False) | Q(snapshot__isnull=False, run=None),
                name="manifest_of_one",
            )
        ]

    def __str__(self):
        return f"manifest of {self.snapshot or self.run}"


class Phase(models.TextChoices):
    DUE = "due"
    CLAIMED = "claimed"
    STARTED = "started"
    SETTLED = "settled"
    UNCERTAIN = "uncertain"


class EffectQuerySet(models.QuerySet):
    def open(self):
        """Not over yet: waiting, or under way. What is uncertain is over until a person says otherwise."""
        return self.filter(phase__in=[Phase.DUE, Phase.CLAIMED, Phase.STARTED])

    def in_flight(self):
        return self.filter(phase__in=[Phase.CLAIMED, Phase.STARTED])


class Effect(models.Model):
    """Something that must happen at most once (workspaces/effects.py moves it)."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    runner = models.ForeignKey(Runner, models.PROTECT, null=True, blank=True, related_name="effects")
    workspace = models.ForeignKey(Workspace, models.CASCADE, null=True, blank=True, related_name="effects")
    kind = models.CharField(max_length=64)
    args = models.JSONField(default=dict)
    exclusive = models.BooleanField(default=False)
    phase = models.CharField(max_length=16, choices=Phase, default=Phase.DUE)
    epoch = models.PositiveIntegerField(default=0)
    lease_until = models.DateTimeField(null=True, blank=True)
    due_at = models.DateTimeField()
    progress = models.JSONField(default=dict)  # {step, done, total, …} while it runs
    outcome = models.JSONField(null=True, blank=True)  # {"ok": bool, "reason": words, …} once settled
    dedupe = models.CharField(max_length=200, unique=True, null=True, blank=True)
    by = models.JSONField(default=dict)  # the Actor who caused it
    created_at = models.DateTimeField(auto_now_add=True)
    cancelled_at = models.DateTimeField(null=True, blank=True)  # somebody asked it to stop; it may be too late
    started_at = models.DateTimeField(null=True, blank=True)
    settled_at = models.DateTimeField(null=True, blank=True)

    objects = EffectQuerySet.as_manager()

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(phase__in=Phase.values), name="effect_phase_known"),
            models.UniqueConstraint(
                fields=["workspace"],
                condition=Q(exclusive=True, phase__in=["claimed", "started"]),
                name="effect_one_exclusive",
            ),
            models.CheckConstraint(
                condition=~Q(phase="settled") | Q(outcome__isnull=False), name="effect_settled_has_outcome"
            ),
        ]
        indexes = [
            models.Index(fields=["runner", "phase", "due_at"], name="effect_by_due"),
            models.Index(
                fields=["workspace"], condition=Q(phase__in=["due", "claimed", "started"]), name="effect_under_way"
            ),
        ]

    def __str__(self):
        return f"{self.kind} {self.phase}"


class Command(models.Model):
    """One program run in a workspace outside any agent loop; its state is its effect's."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    workspace = models.ForeignKey(Workspace, models.CASCADE, related_name="commands")
    effect = models.OneToOneField(Effect, models.PROTECT, related_name="command")
    run = models.ForeignKey(Run, models.SET_NULL, null=True, blank=True, related_name="commands")
    argv = models.JSONField()  # the program and its arguments; a shell command is ["bash", "-c", command]
    shown = models.TextField()  # the command as it was asked for
    cwd = models.TextField(default="/workspace")
    env = models.JSONField(default=dict, blank=True)
    check_name = models.CharField(max_length=80, blank=True)
    service = models.CharField(max_length=80, blank=True)  # its name in the environment
    timeout_s = models.PositiveIntegerField(default=3600)
    exit_status = models.IntegerField(null=True, blank=True)
    signal = models.IntegerField(null=True, blank=True)
    output_bytes = models.PositiveBigIntegerField(default=0)
    truncated = models.BooleanField(default=False)
    cancelled_at = models.DateTimeField(null=True, blank=True)
    swept_at = models.DateTimeField(null=True, blank=True)  # when retention took its output away
    started_at = models.DateTimeField(null=True, blank=True)
    ended_at = models.DateTimeField(null=True, blank=True)
    idempotency_key = models.CharField(max_length=200, null=True, blank=True)
    body_hash = models.CharField(max_length=64, blank=True)
    by = models.JSONField(default=dict)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["workspace", "idempotency_key"], name="command_idempotency_once")
        ]
        indexes = [
            models.Index(fields=["workspace", "created_at"], name="command_by_time"),
            models.Index(
                fields=["workspace", "check_name", "created_at"], condition=~Q(check_name=""), name="command_by_check"
            ),
        ]

    def __str__(self):
        return self.shown[:80]


class Terminal(models.Model):
    """A live pty in a workspace, recorded by its host process; it runs a shell or an agent."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    workspace = models.ForeignKey(Workspace, models.CASCADE, related_name="terminals")
    effect = models.OneToOneField(Effect, models.PROTECT, related_name="terminal")
    run = models.ForeignKey(Run, models.SET_NULL, null=True, blank=True, related_name="terminals")
    argv = models.JSONField()
    cols = models.PositiveSmallIntegerField(default=80)
    rows = models.PositiveSmallIntegerField(default=24)
    host_process = models.JSONField(default=dict)  # boot id, pid, pid start time
    first_offset = models.PositiveBigIntegerField(default=0)
    bytes = models.PositiveBigIntegerField(default=0)
    exit_status = models.IntegerField(null=True, blank=True)
    opened_by = models.JSONField(default=dict)
    swept_at = models.DateTimeField(null=True, blank=True)  # when retention took its recording away
    created_at = models.DateTimeField(auto_now_add=True)
    ended_at = models.DateTimeField(null=True, blank=True)

    def __str__(self):
        return f"terminal in {self.workspace_id}"


class Scope(models.TextChoices):
    SETUP = "setup", "Set-up"
    AGENT = "agent", "Agent"


class Secret(models.Model):
    """A value that a phase of an environment's workspaces may have; encrypted, never shown again."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    team = models.ForeignKey(Team, models.CASCADE, related_name="secrets")
    name = models.CharField(max_length=80)  # of the environment variable that programs find it in
    scope = models.CharField(max_length=8, choices=Scope)
    value = models.BinaryField()
    version = models.UUIDField(default=uuid.uuid4)  # another one for each value
    expires_at = models.DateTimeField(null=True, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)
    set_at = models.DateTimeField(null=True)
    set_by = models.JSONField(default=dict)  # {type, id, label}

    objects = OfTeamQuerySet.as_manager()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["team", "name", "scope"], name="secret_name_once")]

    def __str__(self):
        return self.name


class HandedSecret(models.Model):
    """A value that programs of a workspace were given: what they write is searched for it as long as it exists.

    A copy of its own (encrypted), because a secret that was replaced or deleted may still lie in a file.
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
    """A place where a snapshot would have kept a secret's value; a lead may say that it is kept all the same."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    workspace = models.ForeignKey(Workspace, models.CASCADE, related_name="secret_findings")
    handed = models.ForeignKey(HandedSecret, models.CASCADE, related_name="findings")
    path = models.TextField()  # to show; two that differ in bytes that are not UTF-8 differ in `path_sha256`
    path_sha256 = models.CharField(max_length=64)
    found_at = models.DateTimeField()
    kept_at = models.DateTimeField(null=True, blank=True)
    kept_by = models.JSONField(default=dict, blank=True)  # {type, id, label}

    class Meta:
        constraints = [models.UniqueConstraint(fields=["handed", "path_sha256"], name="secret_found_once")]

    def __str__(self):
        return f"{self.handed} in {self.path}"


class RetentionPolicy(models.Model):
    """How long each layer of a team's workspaces is kept. Days; empty means for ever."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    team = models.OneToOneField(Team, models.CASCADE, related_name="retention")
    snapshot_days = models.PositiveIntegerField(null=True, blank=True, default=90)
    keep_newest_snapshots = models.PositiveIntegerField(default=20)
    home_days = models.PositiveIntegerField(null=True, blank=True, default=30)
    output_days = models.PositiveIntegerField(null=True, blank=True, default=90)
    unused_workspace_days = models.PositiveIntegerField(null=True, blank=True, default=None)

    class Meta:
        verbose_name_plural = "retention policies"

    def __str__(self):
        return f"retention of {self.team}"


class Work(models.TextChoices):
    CHECK = "check", "Check"
    COLLECT = "collect", "Free space"
    REPAIR = "repair", "Repair"


class Upkeep(models.Model):
    """One kind of work on a team's store: the round under way, or the last one (workspaces/upkeep.py moves it)."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    team = models.ForeignKey(Team, models.CASCADE, related_name="upkeep")
    work = models.CharField(max_length=16, choices=Work)
    round = models.PositiveIntegerField(default=0)  # grows with each; what an older one writes does not count
    full = models.BooleanField(default=False)
    by = models.JSONField(default=dict)
    progress = models.JSONField(default=dict)  # {done, bytes, total_bytes} while it runs
    outcome = models.JSONField(null=True, blank=True)  # {"ok": bool, "reason": words, …} of the last that is over
    ok = models.BooleanField(null=True)  # of the last that came to its end
    asked_at = models.DateTimeField()
    noted_at = models.DateTimeField(null=True, blank=True)  # the last sign of life
    started_at = models.DateTimeField(null=True, blank=True)
    ended_at = models.DateTimeField(null=True, blank=True)
    cancelled_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        verbose_name_plural = "upkeep"
        constraints = [
            models.UniqueConstraint(fields=["team", "work"], name="upkeep_one_of_each"),
            models.CheckConstraint(condition=Q(work__in=Work.values), name="upkeep_work_known"),
        ]

    def __str__(self):
        return f"{self.work} of {self.team}"


class Allowance(models.Model):
    """A host that this workspace may reach beside the lists of its environment; the id of one that was asked for is
    that of the effect that made it."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    workspace = models.ForeignKey(Workspace, models.CASCADE, related_name="allowances")
    rule = models.CharField(max_length=300)  # as in an environment's list: example.org, *.example.org, with :port
    phase = models.CharField(max_length=16, default="agent")
    scope = models.CharField(max_length=16)  # once, workspace, environment
    by = models.JSONField(default=dict)
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField(null=True, blank=True)  # of one that holds once
    ended_at = models.DateTimeField(null=True, blank=True)  # used up, or taken back

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(scope__in=["once", "workspace", "environment"]), name="allowance_scope")
        ]
        indexes = [models.Index(fields=["workspace", "ended_at"], name="allowance_open")]

    def __str__(self):
        return f"{self.rule} ({self.scope})"


class Contact(models.Model):
    """What programs of a workspace tried to reach, counted: one row for each host, port, method and verdict."""

    workspace = models.ForeignKey(Workspace, models.CASCADE, related_name="contacts")
    phase = models.CharField(max_length=16)
    host = models.CharField(max_length=253)  # empty where none was named
    port = models.PositiveIntegerField()
    method = models.CharField(max_length=16)
    allowed = models.BooleanField()
    why = models.CharField(max_length=200, blank=True)  # why not
    count = models.PositiveBigIntegerField(default=0)
    sent = models.PositiveBigIntegerField(default=0)  # bytes
    received = models.PositiveBigIntegerField(default=0)
    first_at = models.DateTimeField()
    last_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["workspace", "phase", "host", "port", "method", "allowed", "why"], name="contact_counted_once"
            )
        ]

    def __str__(self):
        return f"{self.host}:{self.port} {'allowed' if self.allowed else 'blocked'}"
