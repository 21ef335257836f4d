"""Sessions of agents and their messages, as hooks and transcripts report them."""

import uuid

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.urls import reverse

from approvals.models.bodies import unpack
from dashboard.database.row_locks import LockingQuerySet
from dashboard.models import Agent, Team
from workspaces.models import Workspace

HEAD_CHARACTERS = 3000  # of a message, on the page of its session


class Role(models.TextChoices):
    USER = "user", "user"
    ASSISTANT = "assistant", "assistant"
    TOOL = "tool", "tool"
    SYSTEM = "system", "system"


class MessageKind(models.TextChoices):
    TEXT = "text", "text"
    THINKING = "thinking", "thinking"
    CALL = "call", "call"  # its text is the arguments, as JSON
    RESULT = "result", "result"
    NOTE = "note", "note"  # what the agent's program told the model or the person


class MessageSource(models.TextChoices):
    HOOK = "hook", "hook"
    TRANSCRIPT = "transcript", "transcript"
    BOTH = "both", "hook and transcript"
    ACP = "acp", "ACP"
    RELAY = "relay", "relay"
    API = "api", "API"


class AgentSessionQuerySet(LockingQuerySet):
    def visible_to(self, who):
        """Return the sessions of a person's teams; an agent's own, of its token's workspace if it has one."""
        if who.is_person:
            return self.filter(team_id__in=who.team_ids)
        return self.filter(who.action_filter())


class AgentSession(models.Model):
    """A session of an agent's program. It is no evidence: the agent's side tells all of it."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    team = models.ForeignKey(Team, models.CASCADE, related_name="+")
    agent = models.ForeignKey(Agent, models.CASCADE, related_name="+")
    workspace = models.ForeignKey(Workspace, models.SET_NULL, null=True, blank=True, related_name="agent_sessions")
    dialect = models.CharField(max_length=20)  # "claude-code", "codex", …
    native_id = models.CharField(max_length=200)  # the program's own id; `session` of its actions
    parent = models.ForeignKey("self", models.SET_NULL, null=True, blank=True, related_name="children")  # a sub-agent's
    call_id = models.CharField(max_length=200, blank=True)  # the parent's call that started this sub-agent
    title = models.CharField(max_length=200, blank=True)  # the beginning of the first prompt
    model = models.CharField(max_length=100, blank=True)
    cwd = models.TextField(blank=True)
    transcript = models.TextField(blank=True)  # path on the agent's machine
    gated_by = models.CharField(max_length=16, blank=True)  # "hook" once one was heard
    started_at = models.DateTimeField()
    last_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True, blank=True)
    end_reason = models.CharField(max_length=100, blank=True)
    tokens_in = models.BigIntegerField(default=0)
    tokens_out = models.BigIntegerField(default=0)
    tokens_cached = models.BigIntegerField(default=0)
    cost = models.DecimalField(max_digits=12, decimal_places=6, null=True, blank=True)  # US dollars, if it was told
    seq = models.PositiveIntegerField(default=0)  # of the newest message
    branch = models.PositiveSmallIntegerField(default=0)  # grows each time that the transcript was written anew
    unknown = models.PositiveIntegerField(default=0)  # rows of the transcript that were not understood

    objects = AgentSessionQuerySet.as_manager()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["agent", "dialect", "native_id"], name="agent_session_once")]
        indexes = [
            models.Index(fields=["team", "last_at"], name="agent_session_by_time"),
            models.Index(fields=["agent", "last_at"], name="agent_session_by_agent"),
            models.Index(fields=["workspace", "last_at"], name="agent_session_by_workspace"),
        ]

    def __str__(self):
        return self.title or f"session {self.native_id}"

    @property
    def session_of_actions(self) -> str:
        """The value of `Action.session`: hooks name the main session for a sub-agent's calls too."""
        return self.parent.native_id if self.parent_id else self.native_id


class Message(models.Model):
    """One thing said, asked or returned in a session. `text` has no secret values; a long one goes on in its body."""

    id = models.BigAutoField(primary_key=True)
    session = models.ForeignKey(AgentSession, models.CASCADE, related_name="messages")
    seq = models.PositiveIntegerField()  # in the order in which Handrail heard of them, without gaps
    branch = models.PositiveSmallIntegerField(default=0)
    native_id = models.CharField(max_length=200, null=True, blank=True)  # from the transcript, or from the call's id
    parent = models.CharField(max_length=200, blank=True)  # native id of the row that it follows
    at = models.DateTimeField()
    role = models.CharField(max_length=9, choices=Role)
    kind = models.CharField(max_length=8, choices=MessageKind)
    text = models.TextField(blank=True)
    bytes = models.PositiveBigIntegerField(default=0)  # of the whole text
    sha256 = models.CharField(max_length=64, blank=True)  # of the whole text without the blanks around it
    tool = models.CharField(max_length=200, blank=True)
    call_id = models.CharField(max_length=200, blank=True)
    action = models.ForeignKey("approvals.Action", models.SET_NULL, null=True, blank=True, related_name="said")
    ok = models.BooleanField(null=True, blank=True)  # of a result: whether the tool succeeded, if that was told
    model = models.CharField(max_length=100, blank=True)
    tokens_in = models.PositiveIntegerField(default=0)
    tokens_out = models.PositiveIntegerField(default=0)
    source = models.CharField(max_length=10, choices=MessageSource)
    by = models.ForeignKey(settings.AUTH_USER_MODEL, models.SET_NULL, null=True, blank=True, related_name="+")

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["session", "seq"], name="conversation_seq_once"),
            models.UniqueConstraint(fields=["session", "native_id"], name="conversation_native_once"),
            models.CheckConstraint(condition=Q(role__in=Role.values), name="conversation_role_known"),
            models.CheckConstraint(condition=Q(kind__in=MessageKind.values), name="conversation_kind_known"),
        ]
        indexes = [
            models.Index(fields=["session", "at", "seq"], name="conversation_in_order"),
            models.Index(fields=["session", "call_id"], name="conversation_by_call"),
            models.Index(fields=["session", "sha256"], name="conversation_by_text"),
            models.Index(fields=["at"], name="conversation_by_time"),
            models.Index(fields=["action"], condition=Q(action__isnull=False), name="conversation_by_action"),
        ]

    def __str__(self):
        return f"{self.kind} {self.seq} of {self.session_id}"

    @property
    def who(self) -> str:
        """The person who wrote it at the desk, else the agent; "" for a prompt of a person at the agent's own terminal.

        A sub-agent gets its prompt from the agent.
        """
        if self.by:
            return self.by.get_username()
        return "" if self.role == Role.USER and not self.session.parent_id else str(self.session.agent)

    @property
    def url(self) -> str:
        return f"{reverse('conversation', args=(self.session_id,))}?upto={self.seq}#message-{self.seq}"

    @property
    def is_long(self) -> bool:
        """Whether `text` is only the beginning."""
        return self.bytes > len(self.text.encode())

    @property
    def whole(self) -> str:
        """The whole text; its beginning alone if the rest was purged."""
        body = MessageBody.objects.filter(message=self).first() if self.is_long else None
        return unpack(body.body).decode() if body else self.text

    @property
    def head(self) -> str:
        """What the page of the session shows."""
        return self.text[:HEAD_CHARACTERS]

    @property
    def is_cut(self) -> bool:
        return self.is_long or len(self.text) > HEAD_CHARACTERS


class MessageBody(models.Model):
    """The whole text of a message that is too long for its row, compressed."""

    message = models.OneToOneField(Message, models.CASCADE, primary_key=True, related_name="body")
    body = models.BinaryField()

    class Meta:
        verbose_name_plural = "message bodies"

    def __str__(self):
        return f"body of {self.message_id}"


class Follow(models.Model):
    """How far a transcript was imported. A file that was written anew is read from its start, as a new branch."""

    id = models.BigAutoField(primary_key=True)
    session = models.ForeignKey(AgentSession, models.CASCADE, related_name="follows")
    path = models.TextField()
    inode = models.BigIntegerField(default=0)
    offset = models.BigIntegerField(default=0)
    head_sha256 = models.CharField(max_length=64, blank=True)  # of the first 4 KiB, or of all that was read if less
    state = models.JSONField(default=dict, blank=True)  # the reader's state from earlier rows
    read_at = models.DateTimeField(null=True, blank=True)
    problem = models.CharField(max_length=200, blank=True)  # why it was not read the last time

    objects = LockingQuerySet.as_manager()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["session", "path"], name="follow_once")]

    def __str__(self):
        return self.path
