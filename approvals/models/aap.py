"""Requests over the Agent Approval Protocol, and the instances of agents whose receivers get webhooks."""

import uuid
from datetime import timedelta

from django.db import models
from django.db.models import Q

from dashboard.database.row_locks import LockingQuerySet
from dashboard.models import Agent, Token
from dashboard.workers.outbox import Outgoing

RETRY_FOR = timedelta(days=7)  # after the decision; the protocol's limit


class AapAttempt(models.Model):
    """A registration or change of an instance. It has succeeded if it has `ready_at`."""

    token = models.ForeignKey(Token, models.CASCADE, related_name="+")  # of the caller
    key = models.CharField(max_length=200)  # the client's idempotency key
    submission_sha256 = models.CharField(max_length=64)
    tried_at = models.DateTimeField()  # when the last attempt with this key began
    attempts = models.PositiveIntegerField(default=0)
    ready_at = models.DateTimeField(null=True, blank=True)  # after its receiver was verified
    problem = models.CharField(max_length=200, blank=True)  # of the last attempt, as a sentence
    problem_code = models.CharField(max_length=40, blank=True)  # the protocol's code of a failed attempt

    class Meta:
        abstract = True


class AapInstanceQuerySet(LockingQuerySet):
    def live(self, now):
        """Return the instances that may make requests: registered, not removed, and with a valid token."""
        in_time = Q(token__expires_at=None) | Q(token__expires_at__gt=now)
        return self.filter(in_time, token__revoked_at=None, ready_at__isnull=False, deleted_at=None)


class AapInstance(AapAttempt, Outgoing):
    """A running instance of an agent, with its own credential and its webhook receiver.

    The credential is derived, not stored, and is valid as long as the token that registered the instance. A row without
    `ready_at` is a registration that has not succeeded, and its credential is not valid.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    agent = models.ForeignKey(Agent, models.CASCADE, related_name="+")
    name = models.CharField(max_length=120)
    credential_sha256 = models.CharField(max_length=64, unique=True)
    url = models.CharField(max_length=2000, blank=True)  # of the receiver
    registration_id = models.CharField(max_length=36, blank=True)
    value = models.BinaryField(null=True, blank=True)  # the secret that signs webhooks; encrypted
    created_at = models.DateTimeField()
    deleted_at = models.DateTimeField(null=True, blank=True)

    objects = AapInstanceQuerySet.as_manager()

    class Meta:
        verbose_name = "AAP instance"
        constraints = [models.UniqueConstraint(fields=["token", "key"], name="aap_instance_once")]

    def __str__(self):
        return self.name


class AapInstanceUpdate(AapAttempt):
    """A change of an instance, kept so that a replay of its key returns the same response."""

    instance = models.ForeignKey(AapInstance, models.CASCADE, related_name="updates")
    answer = models.JSONField(null=True, blank=True)  # the instance as it was after the change

    class Meta:
        verbose_name = "change of an AAP instance"
        verbose_name_plural = "changes of AAP instances"
        constraints = [models.UniqueConstraint(fields=["instance", "token", "key"], name="aap_update_once")]

    def __str__(self):
        return f"change of {self.instance_id}"


# A request that Handrail carries out itself is not resolved by its approval (approvals.protocols.aap.wire).
OVER = Q(action__ended_at__isnull=False) | Q(action__mode="gate", action__operation=None)
RESOLVED = OVER & ~Q(action__status="pending")


class AapRequestQuerySet(models.QuerySet):
    def due(self, now):
        """Return the requests whose webhook may be sent now."""
        instances = AapInstance.objects.live(now).filter(agent__paused_at=None)
        free = instances.filter(Q(next_try_at=None) | Q(next_try_at__lte=now))
        return self.unsent(now).filter(instance__in=free)

    def unsent(self, now):
        """Return the resolved requests whose webhook was not sent yet."""
        since = now - RETRY_FOR
        recent = Q(created_at__gt=since) | Q(action__decided_at__gt=since) | Q(action__ended_at__gt=since)
        return self.filter(RESOLVED, recent, notify_at__lte=now)

    def unresolved(self):
        """Return the requests that are not resolved."""
        return self.exclude(RESOLVED)


class AapRequest(models.Model):
    """A request of one agent: what it submitted, word for word, and the action whose decision answers it.

    Two requests share an action if a person edited the call of the first, and the second asks for the edited call.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    agent = models.ForeignKey(Agent, models.CASCADE, related_name="+")
    instance = models.ForeignKey(AapInstance, models.CASCADE, null=True, blank=True, related_name="requests")
    action = models.ForeignKey("approvals.Action", models.CASCADE, related_name="aap_requests")
    key = models.CharField(max_length=200)  # the client's idempotency key
    submission = models.TextField()  # the JSON object as it was received
    created_at = models.DateTimeField()
    deadline_at = models.DateTimeField()  # as first told; clients refuse a request whose deadline moves
    notify_at = models.DateTimeField(null=True, blank=True)  # when its webhook is due; null: none is to be sent
    tries = models.PositiveIntegerField(default=0)  # of its webhook
    sent_at = models.DateTimeField(null=True, blank=True)

    objects = AapRequestQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["agent", "key"], condition=Q(instance=None), name="aap_request_once"),
            models.UniqueConstraint(
                fields=["instance", "key"], condition=Q(instance__isnull=False), name="aap_request_of_instance_once"
            ),
        ]
        indexes = [models.Index(fields=["notify_at"], condition=~Q(notify_at=None), name="aap_request_unsent")]

    def __str__(self):
        return f"AAP request {self.pk}"
