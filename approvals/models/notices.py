"""Rows of notifications: people's settings, their devices and channels, what each was told, and what they answered."""

import uuid

from django.conf import settings
from django.db import models
from django.db.models import Q

from dashboard.workers.outbox import Outgoing


class NotificationSettings(models.Model):
    """What one person wants to be told, when and how. Without a row the defaults hold."""

    user = models.OneToOneField(
        settings.AUTH_USER_MODEL, models.CASCADE, primary_key=True, related_name="notification_settings"
    )
    on_duty = models.BooleanField(default=True)
    only_critical = models.BooleanField(default=False)
    teams_off = models.JSONField(default=list, blank=True)  # ids of teams that send nothing
    workspaces_off = models.JSONField(default=list, blank=True)  # "team/key" of workspaces that send nothing
    quiet_from = models.TimeField(null=True, blank=True)
    quiet_until = models.TimeField(null=True, blank=True)
    critical_in_quiet = models.BooleanField(default=False)
    is_private = models.BooleanField(default=False)  # a notification says only that something needs approval
    unseen_minutes = models.PositiveIntegerField(default=5)  # then the channels are used
    digest_at = models.TimeField(null=True, blank=True)
    digest_on = models.DateField(null=True, blank=True, editable=False)  # the day of the last one
    going_on = models.DateField(null=True, blank=True, editable=False)  # the day of the last warning of what goes
    going_told = models.JSONField(default=list, blank=True, editable=False)  # what that one told (notify/going.py)
    zone = models.CharField(max_length=64, default="UTC")  # of the times above
    language = models.CharField(max_length=8, default="en", editable=False)  # of the pages when it was last known

    class Meta:
        verbose_name = verbose_name_plural = "notification settings"

    def __str__(self):
        return f"notification settings of {self.user}"


class PushSubscription(models.Model):
    """A browser that takes Web Push, and the session in which its person switched that on."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="push_subscriptions")
    endpoint = models.TextField()
    endpoint_sha256 = models.CharField(max_length=64, unique=True)
    p256dh = models.CharField(max_length=128)
    auth = models.CharField(max_length=64)
    session_key = models.CharField(max_length=40)
    user_agent = models.CharField(max_length=300, blank=True)
    created_at = models.DateTimeField()
    last_success_at = models.DateTimeField(null=True, blank=True)
    failures = models.PositiveIntegerField(default=0)  # since the last success

    def __str__(self):
        return f"device of {self.user}"


class Channel(models.Model):
    """Another way to a person (ntfy, e-mail, a chat): an apprise URL, encrypted because it holds credentials."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="notification_channels")
    value = models.BinaryField()  # the URL, encrypted with the key ring
    label = models.CharField(max_length=120)  # what it is, without its credentials
    with_title = models.BooleanField(default=False)  # whether the action's title, which can hold command text, is sent
    created_at = models.DateTimeField()
    last_success_at = models.DateTimeField(null=True, blank=True)
    failures = models.PositiveIntegerField(default=0)  # since the last success

    def __str__(self):
        return self.label


class Notice(models.Model):
    """One person is told about one action: replaced when the action changes, withdrawn when it needs nobody."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    action = models.ForeignKey("approvals.Action", models.CASCADE, related_name="notices")
    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="notices")
    digest = models.CharField(max_length=64)  # of the call that it tells about
    created_at = models.DateTimeField()
    seen_at = models.DateTimeField(null=True, blank=True)  # this person opened it, or the card
    escalated_at = models.DateTimeField(null=True, blank=True)  # the channels were used
    warned_at = models.DateTimeField(null=True, blank=True)  # told that it expires soon and nobody has looked at it
    closed_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["action", "user"], name="notice_once")]
        indexes = [models.Index(fields=["user"], condition=Q(closed_at=None), name="notice_open")]

    def __str__(self):
        return f"notice of {self.action_id} to {self.user}"


class DeliveryKind(models.TextChoices):
    ASK = "ask", "Needs approval"
    CLOSE = "close", "Withdrawn"
    REMIND = "remind", "Reminder"
    WARN = "warn", "Expires soon"
    DIGEST = "digest", "Morning digest"
    TEST = "test", "Test"
    ALERT = "alert", "Alert"
    GOING = "going", "What retention takes"


class DeliveryQuerySet(models.QuerySet):
    def due(self, now):
        return self.filter(next_try_at__lte=now)


class Delivery(Outgoing):
    """One message to one device or channel, with its tries and what became of it."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="deliveries")
    notice = models.ForeignKey(Notice, models.CASCADE, null=True, blank=True, related_name="deliveries")
    subscription = models.ForeignKey(PushSubscription, models.SET_NULL, null=True, blank=True, related_name="+")
    channel = models.ForeignKey(Channel, models.SET_NULL, null=True, blank=True, related_name="+")
    via = models.CharField(max_length=120)  # the device's or channel's name, which outlives its row
    kind = models.CharField(max_length=8, choices=DeliveryKind)
    digest = models.CharField(max_length=64, blank=True)  # of the call that it asks about
    text = models.CharField(max_length=300, blank=True)  # of an alert
    created_at = models.DateTimeField()
    next_try_at = models.DateTimeField(null=True, blank=True, db_index=True)  # none when it has ended
    receipt_sha256 = models.CharField(max_length=64, blank=True)  # of the secret with which the device reports back
    sent_at = models.DateTimeField(null=True, blank=True)
    shown_at = models.DateTimeField(null=True, blank=True)
    opened_at = models.DateTimeField(null=True, blank=True)

    objects = DeliveryQuerySet.as_manager()

    class Meta:
        verbose_name_plural = "deliveries"
        indexes = [models.Index(fields=["user", "created_at"], name="delivery_by_user")]

    def __str__(self):
        return f"{self.kind} via {self.via}"


class PushToken(models.Model):
    """One answer that a notification offers: used once, for one digest and verdict, in one session of its person."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    delivery = models.ForeignKey(Delivery, models.CASCADE, related_name="tokens")
    verdict = models.CharField(max_length=8, choices=[("approve", "approve"), ("deny", "deny")])
    sha256 = models.CharField(max_length=64, unique=True)
    session_key = models.CharField(max_length=40)
    expires_at = models.DateTimeField()
    used_at = models.DateTimeField(null=True, blank=True)

    def __str__(self):
        return f"{self.verdict} by {self.delivery}"
