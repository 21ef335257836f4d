"""Policies, actions, decisions and grants. Only approvals.actions.transitions.move changes an action's status."""

import uuid

from django.conf import settings
from django.db import models
from django.db.models import Exists, OuterRef, Q

from approvals.models.aap import AapInstance, AapInstanceUpdate, AapRequest  # noqa: F401 - Django looks for an app's models here
from approvals.models.agent_definitions import AgentDefinition  # noqa: F401 - as above
from approvals.models.agent_runs import (  # noqa: F401 - as above
    CLOSED_RUNS,
    OPEN_RUNS,
    AgentRun,
    AgentRunState,
    AgentTurn,
    ModelCall,
    TurnEnd,
    TurnKind,
)
from approvals.models.agent_trials import AgentTrial, TrialState  # noqa: F401 - as above
from approvals.models.approver_groups import ApproverGroup  # noqa: F401 - as above
from approvals.models.attention import Snooze
from approvals.models.code_hosts import (  # noqa: F401 - Django looks for an app's models here
    EntryKind,
    HostAccount,
    HostDelivery,
    HostedRepository,
    HostKind,
    TaskThread,
    ThreadEntry,
    ThreadPost,
    ThreadState,
)
from approvals.models.conversations import (  # noqa: F401 - Django looks for an app's models here
    AgentSession,
    Follow,
    Message,
    MessageBody,
    MessageKind,
    MessageSource,
    Role,
)
from approvals.models.documents import AgentDocument  # noqa: F401 - as above
from approvals.models.drills import Drill, DrillOutcome  # noqa: F401 - as above
from approvals.models.folder_watches import FolderWatch  # noqa: F401 - as above
from approvals.models.line_comments import LineComment, Side  # noqa: F401 - as above
from approvals.models.log_targets import LogTarget, TargetKind  # noqa: F401 - as above
from approvals.models.looks import Look  # noqa: F401 - as above
from approvals.models.messages import ActionMessage
from approvals.models.notices import (  # noqa: F401 - as above
    Channel,
    Delivery,
    DeliveryKind,
    Notice,
    NotificationSettings,
    PushSubscription,
    PushToken,
)
from approvals.models.passkeys import PasskeyChallenge  # noqa: F401 - as above
from approvals.models.policy_files import PolicyFile
from approvals.models.presence import CardViewer  # noqa: F401 - as above
from approvals.models.prompts import SessionPrompt  # noqa: F401 - as above
from approvals.models.talk import AgentMessage, Interrupt  # noqa: F401 - as above
from approvals.models.tasks import Task, TaskAttempt, TaskEnd  # noqa: F401 - as above
from approvals.models.usage import ModelUsage  # noqa: F401 - as above
from approvals.models.ways_back import WayBack, WayBackState  # noqa: F401 - as above
from approvals.policy.people import Takes
from approvals.questions import own_questions
from dashboard.database.row_locks import LockingQuerySet
from dashboard.models import Agent, Team
from workspaces.models import Environment, OfTeamQuerySet, Operation, Rehearsal, Snapshot, Workspace

# The policy engine's values (approvals.policy.verdict). "outside": a call that was found takes it back there (WayBack).
UNDO = ("yes", "partly", "outside", "unknown", "no")
LASTS = ("outside", "no")  # what no snapshot undoes


class Tier(models.TextChoices):
    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"
    CRITICAL = "critical"
    FORBIDDEN = "forbidden"


class Status(models.TextChoices):
    PENDING = "pending"
    APPROVED = "approved"
    DENIED = "denied"
    EXPIRED = "expired"
    CANCELLED = "cancelled"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    UNCERTAIN = "uncertain"


class ActionEndCode(models.TextChoices):
    """Why an action was cancelled or expired; `result.note` says it in words."""

    WITHDRAWN = "withdrawn"  # by its agent or a person
    ABANDONED = "abandoned"  # the agent stopped waiting
    STOPPED = "stopped"  # by the emergency stop
    INTERRUPTED = "interrupted"  # by a person who interrupted its agent
    REVOKED = "revoked"  # the policy changed, or the grant that allowed it was revoked
    NOT_STARTED = "not_started"  # the runner could not start it
    RESTORED = "restored"  # the database was restored from a backup
    UNANSWERED = "unanswered"  # nobody decided in time
    UNUSED = "unused"  # approved, and not consumed in time
    DRILL = "drill"  # answered, and it was a drill (approvals.actions.drills)


class Policy(models.Model):
    """One version of a team's rules (or of one environment's)."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    team = models.ForeignKey(Team, models.CASCADE, related_name="policies")
    environment = models.ForeignKey(Environment, models.CASCADE, null=True, blank=True, related_name="policies")
    number = models.PositiveIntegerField()
    text = models.TextField()
    sha256 = models.CharField(max_length=64)
    by = models.ForeignKey(settings.AUTH_USER_MODEL, models.SET_NULL, null=True, blank=True, related_name="+")
    comment = models.CharField(max_length=300, blank=True, default="")  # what the version changes, and why
    active = models.BooleanField(default=False)
    created_at = models.DateTimeField(auto_now_add=True)

    objects = OfTeamQuerySet.as_manager()

    class Meta:
        verbose_name_plural = "policies"
        constraints = [
            models.UniqueConstraint(
                fields=["team", "environment", "number"], name="policy_number_once", nulls_distinct=False
            ),
            models.UniqueConstraint(
                fields=["team"], condition=Q(active=True, environment=None), name="policy_one_active_team"
            ),
            models.UniqueConstraint(
                fields=["team", "environment"],
                condition=Q(active=True, environment__isnull=False),
                name="policy_one_active_environment",
            ),
        ]

    def __str__(self):
        return f"policy {self.number}"


class ActionQuerySet(LockingQuerySet):
    def visible_to(self, who):
        actions = self.filter(team_id__in=who.team_ids)
        return actions if who.is_person else actions.filter(who.action_filter())

    def pending(self):
        return self.filter(status=Status.PENDING)

    def not_snoozed(self, user, now):
        """Leave out what the person has hidden from their own list for now."""
        hidden = Snooze.objects.filter(action=OuterRef("pk"), user=user, digest=OuterRef("digest"), until__gt=now)
        return self.filter(~Exists(hidden))


class Action(models.Model):
    """A tool call that an agent asks for. Its bytes are in its current revision."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    team = models.ForeignKey(Team, models.CASCADE, related_name="actions")
    number = models.PositiveIntegerField()  # shown as A-41
    agent = models.ForeignKey(Agent, models.PROTECT, related_name="actions")
    workspace = models.ForeignKey(Workspace, models.CASCADE, null=True, blank=True, related_name="actions")
    mode = models.CharField(max_length=8, choices=[("gate", "gate"), ("broker", "broker")])
    tool = models.CharField(max_length=200)
    title = models.CharField(max_length=300)  # written by the server
    session = models.CharField(max_length=200, blank=True)
    call_id = models.CharField(max_length=200, blank=True)
    call_hash = models.CharField(max_length=64)
    # Of the edited call that an agent was told to make itself, until it makes it.
    repeat_hash = models.CharField(max_length=64, blank=True)
    idempotency_key = models.CharField(max_length=200, null=True, blank=True)
    body_hash = models.CharField(max_length=64, blank=True)
    reasoning = models.TextField(blank=True)  # the agent's explanation
    status = models.CharField(max_length=12, choices=Status, default=Status.PENDING)
    tier = models.CharField(max_length=12, choices=Tier)
    undo = models.CharField(max_length=8, choices=[(name, name) for name in UNDO])
    revision = models.PositiveIntegerField(default=1)  # number of the current one
    digest = models.CharField(max_length=64)  # of the current revision, SHA-256 hex
    rule = models.CharField(max_length=500, blank=True, default="")  # of the current revision, for the measures
    policy = models.ForeignKey(Policy, models.PROTECT, null=True, blank=True, related_name="+")
    # The file of the repository that judged it too.
    policy_file = models.ForeignKey(
        PolicyFile, models.SET_NULL, null=True, blank=True, related_name="+", db_index=False
    )
    grant = models.ForeignKey(
        "Grant", models.RESTRICT, null=True, blank=True, related_name="actions"
    )  # the grant that allowed it
    quorum = models.PositiveSmallIntegerField(default=1)  # how many different people must approve
    quorum_role = models.CharField(max_length=16, blank=True, default="")  # of one of them at least; "": any
    quorum_groups = models.JSONField(default=list, blank=True)  # names of groups, of each of which one approves
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField()
    hold_until = models.DateTimeField(null=True, blank=True)  # for a hook's action: it cannot be extended beyond this
    decided_at = models.DateTimeField(null=True, blank=True)
    consume_by = models.DateTimeField(null=True, blank=True)
    consumed_at = models.DateTimeField(null=True, blank=True)
    consume_key = models.CharField(max_length=200, null=True, blank=True)  # the AAP request and key that consumed it
    ended_at = models.DateTimeField(null=True, blank=True)
    snapshot_before = models.ForeignKey(Snapshot, models.SET_NULL, null=True, blank=True, related_name="+")
    # The files as they were when it began to wait (approvals.actions.asked_snapshots), and the operation that takes it.
    asked_snapshot = models.ForeignKey(
        Snapshot, models.SET_NULL, null=True, blank=True, related_name="+", db_index=False
    )
    asked_operation = models.ForeignKey(
        Operation, models.SET_NULL, null=True, blank=True, related_name="+", db_index=False
    )
    operation = models.OneToOneField(Operation, models.SET_NULL, null=True, blank=True, related_name="action")
    end_code = models.CharField(max_length=16, choices=ActionEndCode, blank=True)  # if it was cancelled or expired
    result = models.JSONField(null=True, blank=True)  # {note, exit_status, output_bytes, …}
    envelope = models.JSONField(null=True, blank=True)  # of the policy's verdict: what the kernel holds the call to
    blocked = models.JSONField(default=list, blank=True)  # what that refused when it ran: [{kind, what}]
    # The last try of the current revision; deleted when nobody can apply it any more.
    rehearsal = models.OneToOneField(Rehearsal, models.SET_NULL, null=True, blank=True, related_name="action")
    tool_schema = models.ForeignKey("ToolSchema", models.SET_NULL, null=True, blank=True, related_name="+")
    agent_seen_at = models.DateTimeField(null=True, blank=True)  # when the agent last heard its status
    asked_again_at = models.DateTimeField(null=True, blank=True)  # when another hook last came to wait for it
    # Who was asked by name to decide it; others may too.
    asked_of = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.SET_NULL, null=True, blank=True, related_name="+", db_index=False
    )
    # When it is passed on if nobody has decided it, to whom ({role, group}), and when it was.
    escalate_at = models.DateTimeField(null=True, blank=True)
    escalates_to = models.JSONField(null=True, blank=True)
    escalated_at = models.DateTimeField(null=True, blank=True)
    # The action whose effect outside it takes back.
    compensates = models.ForeignKey(
        "self", models.SET_NULL, null=True, blank=True, related_name="compensations", db_index=False
    )
    # A person's question that the agent has not answered.
    open_question = models.ForeignKey(ActionMessage, models.SET_NULL, null=True, blank=True, related_name="+")

    objects = ActionQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["team", "number"], name="action_number_once"),
            models.UniqueConstraint(fields=["agent", "idempotency_key"], name="action_idempotency_once"),
            models.UniqueConstraint(
                fields=["agent", "session", "call_hash"],
                condition=Q(status="pending") | Q(status="approved", consumed_at=None),
                name="action_one_live_call",
            ),
            models.UniqueConstraint(
                fields=["compensates"],
                condition=~Q(status__in=["denied", "expired", "cancelled", "failed"]),
                name="action_compensated_once",
            ),
            models.CheckConstraint(condition=Q(status__in=Status.values), name="action_status_known"),
            models.CheckConstraint(condition=Q(tier__in=Tier.values), name="action_tier_known"),
        ]
        indexes = [
            models.Index(fields=["team", "status", "expires_at"], name="action_by_status"),
            models.Index(fields=["team", "created_at"], name="action_by_time"),
            # All that the measures count, so that they read the index alone.
            models.Index(fields=["team", "created_at", "tier", "status", "grant", "rule"], name="action_for_measures"),
            models.Index(fields=["workspace", "created_at"], name="action_by_workspace"),
            models.Index(fields=["workspace"], condition=Q(status="pending"), name="action_that_waits"),
            models.Index(fields=["workspace", "status"], name="action_by_workspace_status"),
            models.Index(fields=["team", "status", "ended_at"], name="action_by_end"),
            models.Index(fields=["agent", "session", "created_at"], name="action_by_session"),
            # All that an agent's page counts of its calls by tool, and the newest of those that were denied.
            models.Index(fields=["agent", "created_at", "tool", "tier", "grant", "status"], name="action_by_agent"),
            models.Index(fields=["agent", "ended_at"], condition=Q(status="denied"), name="action_denied_to_agent"),
            models.Index(fields=["digest", "created_at"], name="action_by_digest"),
            models.Index(fields=["workspace", "title", "created_at"], name="action_by_title"),
            # Beside the indexes of the keys: those have an entry for each action without one, and are not used then.
            models.Index(
                fields=["snapshot_before"], condition=Q(snapshot_before__isnull=False), name="action_with_snapshot"
            ),
            models.Index(fields=["operation"], condition=Q(operation__isnull=False), name="action_with_operation"),
            models.Index(
                fields=["asked_snapshot"], condition=Q(asked_snapshot__isnull=False), name="action_asked_snapshot"
            ),
            models.Index(fields=["compensates"], condition=Q(compensates__isnull=False), name="action_compensating"),
            models.Index(
                fields=["asked_operation"], condition=Q(asked_operation__isnull=False), name="action_asked_operation"
            ),
        ]

    def __str__(self):
        return f"A-{self.number}"

    @property
    def takes_one(self) -> bool:
        """Whether any one person who may decide is enough to approve it."""
        return self.takes.takes_one

    @property
    def takes(self) -> Takes:
        """The people who must approve it."""
        return Takes(self.quorum, self.quorum_role, tuple(self.quorum_groups))

    @property
    def is_carried_out(self) -> bool:
        """Whether Handrail carries it out, not its agent: a brokered call, or one whose rehearsal was approved."""
        return self.mode == "broker" or self.operation_id is not None

    @property
    def undo_now(self) -> str:
        """The value of `undo`, or "gone" once the snapshot that would undo the action was deleted."""
        no_snapshot = self.tool.startswith("Handrail.") or self.tool in own_questions.TOOLS
        ran_after_snapshot = self.consumed_at and self.workspace_id and not no_snapshot
        if ran_after_snapshot and self.tier != Tier.LOW and self.undo not in LASTS and self.snapshot_before_id is None:
            return "gone"
        return self.undo


class Revision(models.Model):
    """The canonical bytes of tool, arguments, cwd and workspace: stored, shown, hashed and run."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    action = models.ForeignKey(Action, models.CASCADE, related_name="revisions")
    number = models.PositiveIntegerField()
    canonical = models.BinaryField()
    digest = models.CharField(max_length=64)
    tier = models.CharField(max_length=12, choices=Tier)
    undo = models.CharField(max_length=8, default="no")
    reasons = models.JSONField(default=list)  # the policy's, as sentences
    changed = models.JSONField(default=list)  # names of the bound files that changed after the approval
    rule = models.CharField(max_length=500, blank=True)
    commands = models.JSONField(default=list)  # one entry for each sub-command, as the policy parsed it
    by = models.JSONField(default=dict)  # who made it: agent, person (edited), or Handrail (a bound file changed)
    created_at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["action", "number"], name="revision_number_once")]

    def __str__(self):
        return f"{self.action_id} revision {self.number}"

    @property
    def all_reasons(self) -> list[str]:
        """Why it needs approval, is denied or allowed: what changed since an earlier approval, then the policy's."""
        if not self.changed:
            return self.reasons
        return [f"Needs approval again: {', '.join(self.changed)} changed since it was approved.", *self.reasons]


class BoundFile(models.Model):
    """A file, a push's commit, or uncommitted changes that a revision binds, as of when the revision was made."""

    id = models.BigAutoField(primary_key=True)
    revision = models.ForeignKey(Revision, models.CASCADE, related_name="files")
    number = models.PositiveIntegerField()
    kind = models.CharField(max_length=16)  # script, program, manifest, commit, changes
    path = models.TextField()  # relative to the workspace, or absolute
    state = models.CharField(max_length=16)  # file, commit or changes; any other value says why it is not bound
    sha256 = models.CharField(max_length=64, blank=True)  # for a commit its object name
    size = models.BigIntegerField(null=True, blank=True)
    content = models.BinaryField(null=True, blank=True)  # only of short files that are no secrets

    class Meta:
        constraints = [models.UniqueConstraint(fields=["revision", "number"], name="bound_file_number_once")]

    def __str__(self):
        return f"{self.kind} {self.path}"


class Decision(models.Model):
    """One person's answer to one revision; `final` marks the one that decided the action."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    action = models.ForeignKey(Action, models.CASCADE, related_name="decisions")
    revision = models.ForeignKey(Revision, models.CASCADE, related_name="decisions")
    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.PROTECT, related_name="+")
    verdict = models.CharField(max_length=8, choices=[("approve", "approve"), ("deny", "deny"), ("edit", "edit")])
    comment = models.TextField(blank=True)
    at = models.DateTimeField()
    assertion = models.JSONField(null=True, blank=True)  # {solo, signed_in_at, how} and {passkey: …}
    final = models.BooleanField(default=False)
    unheld = models.BooleanField(default=False)  # approved to run without an envelope
    do_first = models.BooleanField(default=False)  # a denial: the comment is what to do before the call is made again
    # The store's tree that was approved instead of a run: what the rehearsal left. Empty: it runs.
    applied_tree = models.CharField(max_length=64, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["revision", "user"], name="decision_one_each"),
            models.UniqueConstraint(fields=["action"], condition=Q(final=True), name="decision_one_final"),
        ]
        indexes = [
            models.Index(fields=["user", "at"], condition=Q(verdict="deny") & ~Q(comment=""), name="decision_said_why"),
            models.Index(fields=["at"], condition=Q(final=True), name="decision_by_time"),  # for the measures
        ]

    def __str__(self):
        return f"{self.verdict} by {self.user}"


class DecisionEvidence(models.Model):
    """The evidence that a person who approved was shown (approvals.evidence.keeping); files may change later."""

    decision = models.OneToOneField(Decision, models.CASCADE, primary_key=True, related_name="evidence")
    body = models.BinaryField()

    def __str__(self):
        return f"evidence of {self.decision_id}"


class ToolSchema(models.Model):
    """The JSON schema of a tool's arguments, as an agent sent it with calls."""

    team = models.ForeignKey(Team, models.CASCADE, related_name="+")
    sha256 = models.CharField(max_length=64)  # of its canonical JSON
    schema = models.JSONField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["team", "sha256"], name="one_schema_for_each_hash")]

    def __str__(self):
        return f"schema {self.sha256[:12]}"


class McpTool(models.Model):
    """How an MCP server described a tool when it was first used, or when a person last approved a call of it."""

    team = models.ForeignKey(Team, models.CASCADE, related_name="+")
    tool = models.CharField(max_length=200)  # mcp__server__tool
    server = models.CharField(max_length=64)  # SHA-256 of its entry
    sha256 = models.CharField(max_length=64)  # of the definition

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["team", "tool", "server"], name="one_definition_for_each_mcp_tool")
        ]

    def __str__(self):
        return f"{self.tool} {self.sha256[:12]}"


class GrantQuerySet(models.QuerySet):
    def visible_to(self, who):
        grants = self.filter(team_id__in=who.team_ids)
        return grants if who.is_person else grants.filter(who.action_filter())

    def active(self, now):
        return self.filter(revoked_at=None, expires_at__gt=now, uses_left__gt=0)


class Grant(models.Model):
    """An approval in advance, limited in time and uses, and revocable (approvals/actions/grants.py)."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    team = models.ForeignKey(Team, models.CASCADE, related_name="grants")
    agent = models.ForeignKey(Agent, models.CASCADE, null=True, blank=True, related_name="grants")
    workspace = models.ForeignKey(Workspace, models.CASCADE, null=True, blank=True, related_name="grants")
    rules = models.JSONField(default=list)  # {call, why}, {rule, asked_by} or {reads, exactly}
    says = models.CharField(max_length=300, default="")  # what it covers, written by the server
    by = models.ForeignKey(settings.AUTH_USER_MODEL, models.PROTECT, related_name="+")
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField()
    uses_left = models.PositiveIntegerField()
    revoked_at = models.DateTimeField(null=True, blank=True)

    objects = GrantQuerySet.as_manager()

    class Meta:
        indexes = [models.Index(fields=["agent", "expires_at"], name="grant_by_agent")]

    def __str__(self):
        return f"grant of {self.by}"
