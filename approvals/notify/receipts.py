"""What is known of a notification after it was sent: that a device showed it, that its person opened it."""

from approvals.models import Action, Delivery, Notice
from approvals.notify.hashes import sha256
from dashboard.database import clock


def note(delivery_id, receipt: str, what: str) -> bool:
    """Record that a device showed or opened a notification; False unless the receipt is the delivery's own."""
    found = Delivery.objects.filter(pk=delivery_id, receipt_sha256=sha256(receipt)).first()
    if found is None:
        return False
    now = clock.now()
    Delivery.objects.filter(pk=found.pk, shown_at=None).update(shown_at=now)
    if what == "opened":
        Delivery.objects.filter(pk=found.pk, opened_at=None).update(opened_at=now)
        Notice.objects.filter(pk=found.notice_id, seen_at=None).update(seen_at=now)
    return True


def of_action(action: Action) -> list[Delivery]:
    """Return the deliveries of the questions and reminders about an action, oldest first."""
    told = Delivery.objects.filter(notice__action=action).exclude(kind="close")
    return list(told.select_related("user", "notice").order_by("created_at", "pk"))


def note_seen(action: Action, user):
    """Record that the person looks at the card, if they were told about it and had not looked before."""
    unseen = Notice.objects.filter(action=action, user=user, seen_at=None)
    if unseen.exists():
        unseen.update(seen_at=clock.now())
