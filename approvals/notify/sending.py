"""Send notifications: what is encrypted to devices, and what goes through channels (dashboard.workers.outbox)."""

import secrets
from collections.abc import Callable
from datetime import datetime
from functools import partial
from urllib.parse import urlsplit

import requests
from django.conf import settings
from django.db.models import F, QuerySet
from django.utils import translation
from django.utils.translation import get_language, gettext
from py_vapid import Vapid02
from pywebpush import WebPusher

from approvals.evaluation.duty import settings_of
from approvals.models import Action, Channel, Delivery, DeliveryKind, PushSubscription, Status
from approvals.notify import channels, going, messages, tokens, vapid
from approvals.notify.devices import has_live_session
from approvals.notify.hashes import sha256
from dashboard import json_text
from dashboard.database import clock
from dashboard.net import outbound
from dashboard.workers.outbox import Message, NotNeeded, NotSent, Sender
from workspaces.services.outbound import Unreachable, only_reachable

TIMEOUT = 10  # seconds without a byte, of one message
CLOSE_TTL, OTHER_TTL = 3600, 6 * 3600  # seconds for which a push service keeps a message
GONE = (404, 410)  # RFC 8030: the subscription has ended
LATER = (408, 429)
AT = {DeliveryKind.GOING: messages.GOING_AT, DeliveryKind.DIGEST: messages.MORNING_AT}  # where a tap leads


class Gone(NotSent):
    """The device no longer takes notifications."""


class Notifications(Sender):
    """Sends deliveries; one that fails is given up after the last of its waits."""

    waits = (10, 30, 120, 600, 1800)
    gives_up = True

    def due(self, now):
        return Delivery.objects.due(now).order_by("next_try_at")

    def message(self, delivery: Delivery, now: datetime) -> Message:
        with translation.override(settings_of(delivery.user).language):
            return Message(partial(_guarded, _prepare(delivery, now)))

    def sent(self, delivery: Delivery, about, now: datetime) -> int:
        # The delivery before its target, as where a target is deleted with its deliveries.
        Delivery.objects.filter(pk=delivery.pk).update(sent_at=now)
        _target(delivery).update(last_success_at=now, failures=0)
        return 1

    def failed(self, delivery: Delivery, about, error: NotSent, now: datetime):
        _target(delivery).update(failures=F("failures") + 1)
        if isinstance(error, Gone):
            _target(delivery).delete()


def _guarded(send: Callable):
    with only_reachable():
        send()


def _target(delivery: Delivery) -> QuerySet:
    """Return the device or channel, which may have been removed meanwhile."""
    if delivery.subscription_id:
        return PushSubscription.objects.filter(pk=delivery.subscription_id)
    return Channel.objects.filter(pk=delivery.channel_id)


def _prepare(delivery: Delivery, now: datetime) -> Callable:
    """Return a function that sends the delivery without the database. Raise NotNeeded."""
    notice = delivery.notice
    action = (
        Action.objects.select_related("team", "agent__owner", "workspace").get(pk=notice.action_id) if notice else None
    )
    asks = delivery.kind in (DeliveryKind.ASK, DeliveryKind.REMIND, DeliveryKind.WARN)
    if asks and (action.status != Status.PENDING or action.digest != delivery.digest or action.expires_at <= now):
        raise NotNeeded("No longer needed.")
    if delivery.kind == DeliveryKind.GOING and not going.of_owner(delivery.user, settings_of(delivery.user)):
        raise NotNeeded("No longer needed.")
    if delivery.subscription:
        return _push(delivery, action, now)
    if delivery.channel:
        title, body = _content(delivery, action, now, named=delivery.channel.with_title)
        return partial(channels.send, delivery.channel, title, body)
    raise NotNeeded("The device or channel was removed.")


def _content(delivery: Delivery, action: Action | None, now: datetime, *, named: bool = False) -> tuple[str, str]:
    """Return title and body; `named`: with the names of workspaces."""
    if delivery.kind == DeliveryKind.DIGEST:
        return messages.digest(delivery.user, now)
    if delivery.kind == DeliveryKind.TEST:
        return gettext("Handrail test"), gettext("Notifications reach you here.")
    if delivery.kind == DeliveryKind.ALERT:
        return gettext("Handrail alert"), delivery.text
    if delivery.kind == DeliveryKind.GOING:
        return messages.going(delivery.user, named=named)
    return messages.for_channel(action, delivery.channel, soon=delivery.kind == DeliveryKind.WARN)


def _push(delivery: Delivery, action: Action | None, now: datetime):
    device = delivery.subscription
    payload = _payload(delivery, action, now)
    ttl = CLOSE_TTL if delivery.kind == DeliveryKind.CLOSE else OTHER_TTL
    if delivery.kind in (DeliveryKind.ASK, DeliveryKind.WARN):
        ttl = max(1, int((action.expires_at - now).total_seconds()))
    headers = {"TTL": str(ttl), "Urgency": "normal" if delivery.kind == DeliveryKind.DIGEST else "high"}
    if action:
        headers["Topic"] = action.pk.hex  # the push service keeps only the newest message about it
    headers |= _authorization(device.endpoint)
    info = {"endpoint": device.endpoint, "keys": {"p256dh": device.p256dh, "auth": device.auth}}
    clear = json_text.dumps(payload, ensure_ascii=False).encode()
    body = WebPusher(info).encode(clear, content_encoding="aes128gcm")["body"]
    return partial(_post, device.endpoint, body, headers)


def _payload(delivery: Delivery, action: Action | None, now: datetime) -> dict:
    """Return what the service worker gets; details and answers only while the device's person is signed in there."""
    receipt = secrets.token_urlsafe(24)
    Delivery.objects.filter(pk=delivery.pk).update(receipt_sha256=sha256(receipt))
    about = {"kind": delivery.kind, "tag": delivery.kind, "url": "/", "delivery": str(delivery.pk), "receipt": receipt}
    if action is None:
        named = has_live_session(delivery.subscription, now) and not settings_of(delivery.user).is_private
        title, body = _content(delivery, action, now, named=named)
        about |= {"url": AT[delivery.kind]} if delivery.kind in AT else {}
        where = f"\n{settings.HANDRAIL_DESK_URL}{about['url']}"
        return about | {"title": title, "body": body.removesuffix(where)}
    about |= {"tag": str(action.pk), "url": messages.address_of(action).removeprefix(settings.HANDRAIL_DESK_URL)}
    signed_in = has_live_session(delivery.subscription, now)
    wanted = settings_of(delivery.user)
    private = wanted.is_private or not signed_in
    if delivery.kind == DeliveryKind.CLOSE:
        return about | ({"title": gettext("No longer needed"), "body": ""} if private else messages.closed(action))
    about |= messages.ask(action, wanted, private=private, soon=delivery.kind == DeliveryKind.WARN)
    # What is not shown is not decided either: a private notification leads to the card.
    offered = {} if private else tokens.make(delivery, action, delivery.subscription.session_key)
    return about | {"tokens": offered, **_labels()}


def _labels() -> dict:
    """Return the words of the service worker, {labels}, in another language than English, which it holds."""
    if get_language() == settings.LANGUAGE_CODE:
        return {}
    labels = {
        "review": gettext("Review"),
        "deny": gettext("Deny"),
        "approve": gettext("Approve"),
        "unreachable": gettext("Handrail can't be reached. Nothing was decided."),
        "undecided": gettext("Not decided"),
    }
    return {"labels": labels}


def _authorization(endpoint: str) -> dict[str, str]:
    parts = urlsplit(endpoint)
    claims = {"sub": _contact(), "aud": f"{parts.scheme}://{parts.netloc}"}
    claims |= {"exp": int(clock.now().timestamp()) + 12 * 3600}
    return Vapid02(private_key=vapid.private_key()).sign(claims)


def _contact() -> str:
    """Return whom a push service may write to; some refuse messages without a contact that looks real."""
    if settings.HANDRAIL_NOTIFY_CONTACT:
        return settings.HANDRAIL_NOTIFY_CONTACT
    public = urlsplit(settings.HANDRAIL_PUBLIC_URL)
    return f"https://{public.hostname}" if public.scheme == "https" else "mailto:handrail@localhost"


def _post(endpoint: str, body: bytes, headers: dict) -> None:
    sent = headers | {"Content-Encoding": "aes128gcm", "Content-Type": "application/octet-stream"}
    try:
        answer = outbound.post(endpoint, data=body, headers=sent, timeout=TIMEOUT, allow_redirects=False, stream=True)
        answer.close()  # nothing of the answer is needed but its status
    except Unreachable as error:
        raise NotSent(str(error), again=False) from None
    except requests.RequestException as error:
        if _is_unreachable(error):
            raise NotSent("The push service's name leads to a private or special address.", again=False) from None
        raise NotSent(f"The push service did not answer ({type(error).__name__}).") from None
    if answer.status_code in (200, 201, 202, 204):
        return
    if answer.status_code in GONE:
        raise Gone("The device no longer takes notifications.", again=False)
    again = answer.status_code in LATER or answer.status_code >= 500
    raise NotSent(f"The push service answered {answer.status_code}.", again=again)


def _is_unreachable(error: BaseException | None) -> bool:
    """Return whether the error stems from `only_reachable`, whatever libraries wrapped it in."""
    seen = set()
    while error is not None and id(error) not in seen:
        if isinstance(error, Unreachable):
            return True
        seen.add(id(error))
        inner = getattr(error, "reason", None) or next((a for a in error.args if isinstance(a, BaseException)), None)
        error = inner if isinstance(inner, BaseException) else error.__cause__ or error.__context__
    return False
