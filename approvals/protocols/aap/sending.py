"""Send `request.resolved` webhooks to the receivers of instances, for a week (dashboard.workers.outbox).

What is due are the resolved requests with `notify_at`, so that no crash or restart loses a webhook. A webhook that is
sent again has the same id.
"""

import asyncio
from datetime import datetime
from urllib.parse import urlsplit

from django.db.models import F, QuerySet

from approvals.models import AapInstance, AapRequest
from approvals.models.aap import RETRY_FOR
from approvals.protocols.aap import registrations, webhooks
from dashboard.keys import keyring
from dashboard.workers.outbox import LOOKED_AT, Message, NotNeeded, NotSent, Sender


class Webhooks(Sender):
    """Sends the requests of an instance one after another, and to each host one at a time."""

    waits = (3, 10, 30, 120, 600, 3600, 3 * 3600)
    jitter = 0.2
    at_a_time = 8

    def due(self, now):
        waiting = AapRequest.objects.due(now).order_by("notify_at").values_list("instance", flat=True)[:LOOKED_AT]
        found = AapInstance.objects.in_bulk(waiting)
        return [found[pk] for pk in dict.fromkeys(waiting)]

    def turn(self, instance: AapInstance) -> str | None:
        return urlsplit(instance.url).hostname

    def message(self, instance: AapInstance, now: datetime) -> Message:
        # Requests that failed come last.
        waiting = AapRequest.objects.unsent(now).filter(instance=instance).select_related("action")
        request = waiting.order_by("tries", "notify_at").first()
        if request is None or instance.deleted_at or not instance.url:
            raise NotNeeded
        try:
            secret = keyring.load().decrypt(instance.value, registrations.associated_data(instance)).decode()
        except keyring.Unreadable as error:
            raise NotSent("Its signing secret can't be decrypted. Register the instance again.") from error
        event = webhooks.resolved_event(instance, request)
        return Message(lambda: asyncio.run(webhooks.deliver(instance.url, secret, event, now)), request)

    def sent(self, instance: AapInstance, request: AapRequest, now: datetime) -> int:
        _unchanged(request).update(notify_at=None, sent_at=now, tries=0)
        return 1

    def failed(self, instance: AapInstance, request: AapRequest, error: NotSent, now: datetime):
        _unchanged(request).update(notify_at=now + self.wait(request.tries + 1), tries=F("tries") + 1)


def _unchanged(request: AapRequest) -> QuerySet:
    """Return the row unless its decision was revoked meanwhile, which has set a new `notify_at`."""
    return AapRequest.objects.filter(pk=request.pk, notify_at=request.notify_at)


def forget(now: datetime) -> None:
    """Give up the webhooks that could not be sent within RETRY_FOR."""
    # Twice, since a request may wait for its decision for as long as RETRY_FOR.
    old = AapRequest.objects.filter(notify_at__lt=now - 2 * RETRY_FOR).exclude(action__status="pending")
    old.update(notify_at=None)
