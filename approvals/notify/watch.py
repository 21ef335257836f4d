"""When the queue has to look after notifications: after events, when a delivery is due, and from time to time."""

import time

from django.db.models import Sum

from approvals.models import Channel, Delivery, Notice, PushSubscription
from dashboard import clock
from dashboard.models import Team

INTERVAL = 15.0  # seconds between two looks without news: for expiries, reminders, quiet hours and digests


class Watch:
    """Tells the queue's loop whether a look is due; costs two to four small queries a second."""

    def __init__(self):
        self._events = None
        self._looked = float("-inf")

    def is_due(self) -> bool:
        events = Team.objects.aggregate(found=Sum("event_seq"))["found"]
        news = events != self._events or time.monotonic() - self._looked >= INTERVAL
        if not news and not Delivery.objects.due(clock.now()).exists():
            return False
        if news:
            self._events, self._looked = events, time.monotonic()
        return (
            PushSubscription.objects.exists()
            or Channel.objects.exists()
            or Notice.objects.filter(closed_at=None).exists()
        )
