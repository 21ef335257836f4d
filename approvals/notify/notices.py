"""Keep notices in step with the actions that need approval: tell, replace, withdraw, remind. Safe to run at any time.

Nothing is queued by what changes an action: this compares rows, so that no crash and no restart loses a notice.
"""

from datetime import datetime, timedelta

from django.contrib.auth import get_user_model
from django.db import transaction
from django.db.models import Exists, OuterRef, Q

from approvals.evaluation.duty import zone_of
from approvals.models import (
    Action,
    CardViewer,
    Channel,
    Delivery,
    DeliveryKind,
    Notice,
    NotificationSettings,
    PushSubscription,
    Snooze,
)
from approvals.notify.morning import morning_of
from approvals.notify.routing import Recipient, is_quiet, recipients, wants
from dashboard.database import clock
from dashboard.people.access import caller_of
from dashboard.people.sessions import device_name
from dashboard.problems import conflict
from dashboard.workers.wakes import wake_feeds

MAX_OPEN = 10  # notices that a person has at a time: of the newest actions; others come as these are decided
TEST_PAUSE = timedelta(seconds=10)
WARN_BEFORE = timedelta(minutes=5)  # the end of an action that nobody has looked at
WARN_AFTER = timedelta(minutes=2)  # at the earliest, since a person was told of it
KEPT = timedelta(days=30)
DIGEST_WITHIN = timedelta(hours=3)  # a digest that could not be sent by then is left out


def reconcile(now: datetime | None = None):
    """Create, replace and close notices, and the deliveries that they need."""
    now = now or clock.now()
    user_ids = receivers()
    open_notices = list(Notice.objects.filter(closed_at=None).select_related("action"))
    if not user_ids and not open_notices:
        return
    pending = Action.objects.pending().filter(expires_at__gt=now).select_related("team", "agent__owner", "workspace")
    actions = {action.pk: action for action in pending.order_by("-created_at")}
    people = {found.user.pk: found for found in recipients(user_ids)}
    known = {(notice.action_id, notice.user_id): notice for notice in open_notices}
    snoozed = set(Snooze.objects.filter(until__gt=now).values_list("user_id", "action_id", "digest"))
    told = {}
    for person in people.values():
        shown = [each for each in actions.values() if (person.user.pk, each.pk, each.digest) not in snoozed]
        shown.sort(key=lambda action, own=person.user.pk: action.asked_of_id != own)  # by name first, then the newest
        told[person.user.pk] = _to_tell(person, shown, known, now)
    for notice in open_notices:
        action = told.get(notice.user_id, {}).get(notice.action_id)
        if action is None:
            close(notice, now)
        elif notice.digest != action.digest:
            _replace(notice, action, now)
    for person in people.values():
        for action in told[person.user.pk].values():
            if (action.pk, person.user.pk) not in known:
                _tell(person, action, now)
    remind(now)
    warn(now)
    for person in people.values():
        _send_digest(person.wants, now)


def forget(now: datetime):
    """Delete what was sent more than KEPT ago, and the notices that were closed by then."""
    Delivery.objects.filter(created_at__lt=now - KEPT).delete()
    Notice.objects.filter(closed_at__lt=now - KEPT).delete()


def receivers() -> set:
    """Return the ids of the people who have a device or a channel."""
    devices = PushSubscription.objects.values_list("user_id", flat=True)
    return set(devices.union(Channel.objects.values_list("user_id", flat=True)))


def _has_answered(user_id, action: Action) -> bool:
    given = action.decisions.filter(user=user_id, revision__number=action.revision)
    return not action.takes_one and given.exists()


def _to_tell(person: Recipient, actions, known: dict, now: datetime) -> dict:
    """Return {pk: action} of what the person has or gets a notice of: the newest, so a backlog hides no new one."""
    found = {}
    for action in actions:
        if len(found) == MAX_OPEN:
            break
        is_told = (action.pk, person.user.pk) in known
        if not wants(person, action) or (not is_told and is_quiet(person.wants, action, now)):
            continue
        if not _has_answered(person.user.pk, action):
            found[action.pk] = action
    return found


def _tell(person: Recipient, action: Action, now: datetime):
    with transaction.atomic():
        notice, made = Notice.objects.get_or_create(
            action=action, user=person.user, defaults={"digest": action.digest, "created_at": now}
        )
        if not made and notice.closed_at is None:
            return  # another host was first
        if not made:  # closed while the person was off duty, say, and wanted again
            _drop_unsent(notice)
            fresh = {"closed_at": None, "seen_at": None, "escalated_at": None, "warned_at": None, "created_at": now}
            Notice.objects.filter(pk=notice.pk).update(digest=action.digest, **fresh)
        deliver_to_devices(person.user, DeliveryKind.ASK, now, notice=notice, digest=action.digest)


def _replace(notice: Notice, action: Action, now: datetime):
    """Tell about the new call in the place of the old one; what was not sent yet is not sent."""
    with transaction.atomic():
        fresh = {"digest": action.digest, "seen_at": None, "escalated_at": None, "warned_at": None, "created_at": now}
        if Notice.objects.filter(pk=notice.pk, digest=notice.digest, closed_at=None).update(**fresh):
            _drop_unsent(notice)
            deliver_to_devices(notice.user, DeliveryKind.ASK, now, notice=notice, digest=action.digest)


def close(notice: Notice, now: datetime):
    """Close the notice, and withdraw it from the devices that may show it."""
    with transaction.atomic():
        if not Notice.objects.filter(pk=notice.pk, closed_at=None).update(closed_at=now):
            return
        notice.closed_at = now
        _drop_unsent(notice)
        # One that was tried may have arrived, whatever was heard of it. Each try makes a receipt.
        tried = Delivery.objects.filter(kind=DeliveryKind.ASK, notice=notice, subscription__isnull=False)
        reached = tried.exclude(receipt_sha256="").values_list("subscription_id", flat=True)
        for device in PushSubscription.objects.filter(pk__in=set(reached)):
            _add(notice.user_id, DeliveryKind.CLOSE, now, notice=notice, subscription=device)


def _drop_unsent(notice: Notice):
    waiting = Delivery.objects.filter(notice=notice, sent_at=None, next_try_at__isnull=False)
    waiting.update(next_try_at=None, problem="No longer needed.")


def deliver_to_devices(user, kind: str, now: datetime, **fields) -> int:
    """Add a delivery for each device of the person; return their number."""
    devices = list(PushSubscription.objects.filter(user=user))
    for device in devices:
        _add(user.pk, kind, now, subscription=device, **fields)
    return len(devices)


def deliver_to_channels(user_id, kind: str, now: datetime, **fields) -> int:
    """Add a delivery for each channel of the person; return their number."""
    channels = list(Channel.objects.filter(user=user_id))
    for channel in channels:
        _add(user_id, kind, now, channel=channel, **fields)
    return len(channels)


def send_test(user, now: datetime) -> int:
    """Add a test delivery for each device and channel of the person; return their number. Problem 409 if too soon."""
    before = Delivery.objects.filter(user=user, kind=DeliveryKind.TEST, created_at__gt=now - TEST_PAUSE)
    if before.exists():
        raise conflict("A test was sent a moment ago.", code="too_soon")
    count = deliver_to_devices(user, DeliveryKind.TEST, now)
    return count + deliver_to_channels(user.pk, DeliveryKind.TEST, now)


def _add(user_id, kind: str, now: datetime, *, subscription=None, channel=None, **fields):
    via = device_name(subscription.user_agent) if subscription else channel.label
    Delivery.objects.create(
        user_id=user_id,
        kind=kind,
        via=via,
        subscription=subscription,
        channel=channel,
        created_at=now,
        next_try_at=now,
        **fields,
    )
    transaction.on_commit(wake_feeds)  # a test, for instance, writes no event that would wake the queue


def remind(now: datetime):
    """Use the channels for notices of actions that nobody has seen within the person's time."""
    waiting = Notice.objects.filter(closed_at=None, escalated_at=None).select_related("user", "action")
    seen = set(Notice.objects.filter(seen_at__isnull=False, closed_at=None).values_list("action_id", flat=True))
    wanted = {row.user_id: row for row in NotificationSettings.objects.all()}
    devices = set(PushSubscription.objects.values_list("user_id", flat=True))
    for notice in waiting.filter(user__notification_channels__isnull=False).distinct():
        own = wanted.get(notice.user_id) or NotificationSettings(user=notice.user)
        patience = timedelta(minutes=own.unseen_minutes if notice.user_id in devices else 0)
        if notice.action_id in seen or now < notice.created_at + patience or is_quiet(own, notice.action, now):
            continue
        with transaction.atomic():
            if Notice.objects.filter(pk=notice.pk, escalated_at=None, closed_at=None).update(escalated_at=now):
                deliver_to_channels(notice.user_id, DeliveryKind.REMIND, now, notice=notice, digest=notice.digest)


def warn(now: datetime):
    """Say once of an action that it expires soon, to those who were told of it, if none of them has looked at it."""
    ending = Notice.objects.filter(closed_at=None, warned_at=None, created_at__lte=now - WARN_AFTER)
    ending = ending.filter(action__expires_at__lte=now + WARN_BEFORE, action__expires_at__gt=now)
    seen = Notice.objects.filter(action=OuterRef("action"), seen_at__isnull=False)
    looked = CardViewer.objects.filter(action=OuterRef("action"))
    for notice in ending.filter(~Exists(seen), ~Exists(looked)).select_related("user", "action"):
        with transaction.atomic():
            if Notice.objects.filter(pk=notice.pk, warned_at=None, closed_at=None).update(warned_at=now):
                about = {"notice": notice, "digest": notice.digest}
                deliver_to_devices(notice.user, DeliveryKind.WARN, now, **about)
                deliver_to_channels(notice.user_id, DeliveryKind.WARN, now, **about)


def _send_digest(wanted: NotificationSettings, now: datetime):
    """Send the day's digest once its time has come, in the person's zone; none of a day in which nothing happened."""
    if wanted.digest_at is None or not wanted.on_duty:
        return
    local = now.astimezone(zone_of(wanted))
    due = local.replace(hour=wanted.digest_at.hour, minute=wanted.digest_at.minute, second=0, microsecond=0)
    if not due <= local < due + DIGEST_WITHIN:
        return
    with transaction.atomic():
        day = local.date()
        today = NotificationSettings.objects.filter(pk=wanted.pk).filter(Q(digest_on=None) | ~Q(digest_on=day))
        if today.update(digest_on=day):
            user = get_user_model().objects.get(pk=wanted.pk)
            if not morning_of(caller_of(user), now):
                return
            deliver_to_devices(user, DeliveryKind.DIGEST, now)
            deliver_to_channels(user.pk, DeliveryKind.DIGEST, now)
