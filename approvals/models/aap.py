"""Requests over the Agent Approval Protocol, and the instances of agents that are told when theirs are decided."""

import uuid
from datetime import timedelta

from django.db import models
from django.db.models import Q

from dashboard.models import Agent, Token

TELL_WITHIN = timedelta(days=7)  # of the decision; the protocol's own limit


class AapAttempt(models.Model):
    """A registration or a change of an instance, which may wait for a receiver: done once it has `ready_at`."""

    token = models.ForeignKey(Token, models.CASCADE, related_name="+")  # that asked for it
    key = models.CharField(max_length=200)  # the client's idempotency key
    submission_sha256 = models.CharField(max_length=64)
    tried_at = models.DateTimeField()  # when the last attempt with this key began
    attempts = models.PositiveIntegerField(default=0)
    ready_at = models.DateTimeField(null=True, blank=True)  # its receiver has answered, if it has one
    problem = models.CharField(max_length=200, blank=True)  # of the last try, in words
    problem_code = models.CharField(max_length=40, blank=True)  # as the protocol names why the attempt failed

    class Meta:
        abstract = True


class AapInstanceQuerySet(models.QuerySet):
    def live(self, now):
        """Return the instances that may ask: registered, not removed, and with a live token."""
        in_time = Q(token__expires_at=None) | Q(token__expires_at__gt=now)
        return self.filter(in_time, token__revoked_at=None, ready_at__isnull=False, deleted_at=None)


class AapInstance(AapAttempt):
    """One running agent with a credential of its own, and where its receiver is told of decisions.

    The credential is worth what the token is that registered it: it ends with the token, and is never stored.
    A row without `ready_at` is a registration that has not succeeded; it can do nothing.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    agent = models.ForeignKey(Agent, models.CASCADE, related_name="+")
    name = models.CharField(max_length=120)
    credential_sha256 = models.CharField(max_length=64, unique=True)
    url = models.CharField(max_length=2000, blank=True)  # of the receiver
    registration_id = models.CharField(max_length=36, blank=True)
    value = models.BinaryField(null=True, blank=True)  # signs what the receiver gets; encrypted
    created_at = models.DateTimeField()
    deleted_at = models.DateTimeField(null=True, blank=True)
    next_try_at = models.DateTimeField(null=True, blank=True)  # after a failure, and while somebody sends
    failures = models.PositiveIntegerField(default=0)  # to tell its receiver, in a row

    objects = AapInstanceQuerySet.as_manager()

    class Meta:
        verbose_name = "AAP instance"
        constraints = [models.UniqueConstraint(fields=["token", "key"], name="aap_instance_once")]

    def __str__(self):
        return self.name


class AapInstanceUpdate(AapAttempt):
    """A change of an instance, kept so that the same one asked for again is answered as then and changes nothing."""

    instance = models.ForeignKey(AapInstance, models.CASCADE, related_name="updates")
    answer = models.JSONField(null=True, blank=True)  # the instance as it was after the change

    class Meta:
        verbose_name = "change of an AAP instance"
        verbose_name_plural = "changes of AAP instances"
        constraints = [models.UniqueConstraint(fields=["instance", "token", "key"], name="aap_update_once")]

    def __str__(self):
        return f"change of {self.instance_id}"


# What Handrail carries out is not over when it is approved (approvals.aap.wire).
OVER = Q(action__ended_at__isnull=False) | Q(action__mode="gate", action__operation=None)
RESOLVED = OVER & ~Q(action__status="pending")


class AapRequestQuerySet(models.QuerySet):
    def due(self, now):
        """Return the requests to tell, of instances whose receiver may be tried now."""
        instances = AapInstance.objects.live(now).filter(agent__paused_at=None)
        free = instances.filter(Q(next_try_at=None) | Q(next_try_at__lte=now))
        return self.to_tell(now).filter(instance__in=free)

    def to_tell(self, now):
        """Return the requests that are decided or over and whose receiver is not told so yet."""
        since = now - TELL_WITHIN
        recent = Q(created_at__gt=since) | Q(action__decided_at__gt=since) | Q(action__ended_at__gt=since)
        return self.filter(RESOLVED, recent, notify_at__lte=now)

    def unresolved(self):
        """Return the requests that are neither decided nor over."""
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
    notify_at = models.DateTimeField(null=True, blank=True)  # its receiver is told from then on; none: it need not be
    tries = models.PositiveIntegerField(default=0)  # to tell the receiver
    told_at = models.DateTimeField(null=True, blank=True)

    objects = AapRequestQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["agent", "key"], condition=Q(instance=None), name="aap_request_once"),
            models.UniqueConstraint(
                fields=["instance", "key"], condition=Q(instance__isnull=False), name="aap_request_of_instance_once"
            ),
        ]
        indexes = [models.Index(fields=["notify_at"], condition=~Q(notify_at=None), name="aap_request_to_tell")]

    def __str__(self):
        return f"AAP request {self.pk}"
