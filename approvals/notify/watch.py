"""When the queue has to look after notifications: after changes, when a delivery is due, and from time to time."""

import time

from django.db.models import Count, Max, Sum

from approvals.models import Action, Channel, Delivery, Notice, PushSubscription
from dashboard import clock

INTERVAL = 15.0  # seconds between two looks without news: for votes, expiries, reminders, quiet hours and digests
NOBODY_INTERVAL = 5.0  # seconds until it is asked again whether anybody has a device or a channel


class Watch:
    """Tells the queue's loop whether a look is due, by two small queries a second, fewer while nobody is to be told."""

    def __init__(self):
        self._pending = None
        self._looked = self._nobody_at = float("-inf")

    def is_due(self) -> bool:
        if time.monotonic() - self._nobody_at < NOBODY_INTERVAL:
            return False
        pending = Action.objects.pending().aggregate(Count("pk"), Max("created_at"), Sum("revision"))
        news = pending != self._pending or time.monotonic() - self._looked >= INTERVAL
        if not news and not Delivery.objects.due(clock.now()).exists():
            return False
        if not _is_anybody():
            self._nobody_at = time.monotonic()
            return False
        if news:
            self._pending, self._looked = pending, time.monotonic()
        return True


def _is_anybody() -> bool:
    """Return whether anybody has a device, a channel, or a notice that must be withdrawn."""
    return (
        PushSubscription.objects.exists() or Channel.objects.exists() or Notice.objects.filter(closed_at=None).exists()
    )
