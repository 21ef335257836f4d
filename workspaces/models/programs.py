"""Programs that people and agents run in a workspace: commands and terminals."""

import uuid

from django.db import models
from django.db.models import Q

from workspaces.models.operations import Operation
from workspaces.models.runs import Run
from workspaces.models.workspaces import Workspace


class Command(models.Model):
    """A program run in a workspace outside an agent's loop; its state is that of its operation."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    workspace = models.ForeignKey(Workspace, models.CASCADE, related_name="commands")
    operation = models.OneToOneField(Operation, models.PROTECT, related_name="command")
    run = models.ForeignKey(Run, models.SET_NULL, null=True, blank=True, related_name="commands")
    argv = models.JSONField()  # the program and its arguments; a shell command is ["bash", "-c", command]
    shown = models.TextField()  # the command as requested, for display
    cwd = models.TextField(default="/workspace")
    env = models.JSONField(default=dict, blank=True)
    check_name = models.CharField(max_length=80, blank=True)
    service = models.CharField(max_length=80, blank=True)  # its name in the environment
    timeout_s = models.PositiveIntegerField(default=3600)
    envelope = models.JSONField(null=True, blank=True)  # what the kernel holds it to; None: it is not held
    blocked = models.JSONField(default=list, blank=True)  # what that refused: [{kind, what}]
    exit_status = models.IntegerField(null=True, blank=True)
    signal = models.IntegerField(null=True, blank=True)
    output_bytes = models.PositiveBigIntegerField(default=0)
    truncated = models.BooleanField(default=False)
    cancelled_at = models.DateTimeField(null=True, blank=True)
    swept_at = models.DateTimeField(null=True, blank=True)  # when retention deleted its output
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
            models.Index(fields=["created_at"], name="command_of_all_by_time"),
            models.Index(
                fields=["workspace", "check_name", "created_at"], condition=~Q(check_name=""), name="command_by_check"
            ),
        ]

    def __str__(self):
        return self.shown[:80]


class TerminalQuerySet(models.QuerySet):
    def readable_by(self, actor):
        """Return those whose output the actor may read: agents read a person's terminal only if it is shared."""
        return self if actor.type != "agent" else self.filter(Q(opened_by__type="agent") | Q(shared=True))


class Terminal(models.Model):
    """A pty in a workspace that runs a shell or an agent, recorded by its shim."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    workspace = models.ForeignKey(Workspace, models.CASCADE, related_name="terminals")
    operation = models.OneToOneField(Operation, models.PROTECT, related_name="terminal")
    run = models.ForeignKey(Run, models.SET_NULL, null=True, blank=True, related_name="terminals")
    argv = models.JSONField()
    cols = models.PositiveSmallIntegerField(default=80)
    rows = models.PositiveSmallIntegerField(default=24)
    host_process = models.JSONField(default=dict)  # boot id, pid, pid start time
    first_offset = models.PositiveBigIntegerField(default=0)
    bytes = models.PositiveBigIntegerField(default=0)
    exit_status = models.IntegerField(null=True, blank=True)
    opened_by = models.JSONField(default=dict)
    envelope = models.JSONField(null=True, blank=True)  # what the kernel holds it to; None: it is not held
    blocked = models.JSONField(default=list, blank=True)  # what that refused: [{kind, what}]
    shared = models.BooleanField(default=False)  # of a person's: agents may read it
    swept_at = models.DateTimeField(null=True, blank=True)  # when retention deleted its recording
    created_at = models.DateTimeField(auto_now_add=True)
    ended_at = models.DateTimeField(null=True, blank=True)

    objects = TerminalQuerySet.as_manager()

    def __str__(self):
        return f"terminal in {self.workspace_id}"
