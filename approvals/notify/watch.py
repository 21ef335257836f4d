"""When the queue has to look after notifications: after changes, when a delivery is due, and from time to time."""

import time

from django.db.models import Count, Max, Sum

from approvals.models import Action, Channel, Delivery, Notice, PushSubscription
from dashboard import clock

INTERVAL = 15.0  # seconds between two looks without news: for votes, expiries, reminders, quiet hours and digests


class Watch:
    """Tells the queue's loop whether a look is due, by a few small queries a second."""

    def __init__(self):
        self._pending = None
        self._looked = float("-inf")

    def is_due(self) -> bool:
        pending = Action.objects.pending().aggregate(Count("pk"), Max("created_at"), Sum("revision"))
        news = pending != self._pending or time.monotonic() - self._looked >= INTERVAL
        if not news and not Delivery.objects.due(clock.now()).exists():
            return False
        if news:
            self._pending, self._looked = pending, time.monotonic()
        return (
            PushSubscription.objects.exists()
            or Channel.objects.exists()
            or Notice.objects.filter(closed_at=None).exists()
        )
