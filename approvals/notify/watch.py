"""When the queue has to look after notifications: after changes, when a delivery is due, and from time to time."""

import time

from django.db.models import Count, Max, QuerySet, Sum

from approvals.models import Action, Channel, Delivery, Notice, PushSubscription
from dashboard.database import clock
from dashboard.database.one_statement import exist

INTERVAL = 15.0  # seconds between two looks without news: for votes, expiries, reminders, quiet hours and digests


class Watch:
    """Tells the queue's loop whether a look is due."""

    def __init__(self):
        self._pending = None
        self._looked = float("-inf")

    @property
    def is_late(self) -> bool:
        """Return whether the last look with news was long ago."""
        return time.monotonic() - self._looked >= INTERVAL

    def questions(self, now) -> tuple[QuerySet, ...]:
        """Return the deliveries that are due, and whoever is told: a device, a channel, a notice to be withdrawn."""
        open_notices = Notice.objects.filter(closed_at=None)
        return Delivery.objects.due(now), PushSubscription.objects.all(), Channel.objects.all(), open_notices

    def is_due(self, answers: tuple[bool, ...] | None = None) -> bool:
        """Return whether a look is due, given which of `questions` have a row, which is asked if it is not known."""
        is_delivery_due, *told = exist(*self.questions(clock.now())) if answers is None else answers
        if not any(told):
            return False
        pending = Action.objects.pending().aggregate(Count("pk"), Max("created_at"), Sum("revision"))
        if pending == self._pending and not self.is_late:
            return is_delivery_due
        self._pending, self._looked = pending, time.monotonic()
        return True
