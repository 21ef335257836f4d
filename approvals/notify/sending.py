"""Send the deliveries that are due, encrypted to devices and through channels, with retries and a time limit."""

import logging
import secrets
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from urllib.parse import urlsplit

import requests
from django.conf import settings
from django.db import transaction
from django.db.models import F
from django.utils import translation
from django.utils.translation import get_language, gettext
from py_vapid import Vapid02
from pywebpush import WebPusher

from approvals.models import Action, Delivery, DeliveryKind, PushSubscription, Status
from approvals.notify import channels, going, messages, tokens, vapid
from approvals.notify.devices import has_live_session
from approvals.notify.hashes import sha256
from approvals.notify.reach import Unreachable, only_reachable
from approvals.notify.routing import settings_of
from dashboard import clock, json_text
from dashboard.workers.deadlines import Late, within

logger = logging.getLogger("handrail.notify")
BATCH = 20  # deliveries at a time
TIMEOUT = 10  # seconds without a byte, of one message
DEADLINE = 2 * TIMEOUT  # seconds for one message
LEASE = timedelta(seconds=90)  # within which another host does not send the same delivery
RETRIES = [timedelta(seconds=seconds) for seconds in (10, 30, 120, 600, 1800)]
CLOSE_TTL, OTHER_TTL = 3600, 6 * 3600  # seconds for which a push service keeps a message
GONE = (404, 410)  # RFC 8030: the subscription has ended
LATER = (408, 429)


@dataclass
class Outcome:
    """What became of one try: sent, or a problem in words, and whether another try makes sense."""

    problem: str = ""
    again: bool = False
    gone: bool = False


def send_due() -> int:
    """Send what is due; return the number of deliveries tried."""
    now = clock.now()
    jobs = []
    for delivery in Delivery.objects.due(now).order_by("next_try_at")[:BATCH]:
        # Of several hosts one claims it; a process that is killed leaves it due again after the lease.
        leased = Delivery.objects.filter(pk=delivery.pk, next_try_at=delivery.next_try_at)
        if leased.update(next_try_at=now + LEASE, tries=F("tries") + 1):
            delivery.refresh_from_db()
            try:
                job = _prepare(delivery, now)
            except Exception:  # one that can't be prepared must not keep the others from being sent
                logger.exception("a notification via %s could not be prepared", delivery.via)
                _end(delivery, "It could not be prepared; the queue's log says why.")
                continue
            if job:
                jobs.append((delivery, job))
    outcomes = within(DEADLINE, [partial(_guarded, job) for _, job in jobs])
    for (delivery, _), outcome in zip(jobs, outcomes, strict=True):
        _record(delivery, _outcome(outcome), clock.now())
    return len(jobs)


def _guarded(job) -> Outcome:
    with only_reachable():
        return job()


def _outcome(found: Outcome | Exception) -> Outcome:
    if isinstance(found, Late):
        return Outcome(f"It did not answer within {DEADLINE} s.", again=True)
    if isinstance(found, Exception):  # one that can't be sent must not keep the others from being recorded
        logger.error("a notification could not be sent", exc_info=found)
        return Outcome("It could not be sent; the queue's log says why.", again=True)
    return found


def _prepare(delivery: Delivery, now: datetime):
    """Return a function that sends the delivery without the database; None if it is not needed any more."""
    with translation.override(settings_of(delivery.user).language):
        return _prepare_translated(delivery, now)


def _prepare_translated(delivery: Delivery, now: datetime):
    notice = delivery.notice
    action = (
        Action.objects.select_related("team", "agent__owner", "workspace").get(pk=notice.action_id) if notice else None
    )
    asks = delivery.kind in (DeliveryKind.ASK, DeliveryKind.REMIND)
    if asks and (action.status != Status.PENDING or action.digest != delivery.digest or action.expires_at <= now):
        return _end(delivery, "No longer needed.")
    if delivery.kind == DeliveryKind.GOING and not going.of_owner(delivery.user, settings_of(delivery.user)):
        return _end(delivery, "No longer needed.")
    if delivery.subscription:
        return _push(delivery, action, now)
    if delivery.channel:
        title, body = _words(delivery, action, now, named=delivery.channel.with_title)
        return lambda: _through(delivery.channel, title, body)
    return _end(delivery, "The device or channel was removed.")


def _end(delivery: Delivery, problem: str) -> None:
    Delivery.objects.filter(pk=delivery.pk).update(next_try_at=None, problem=problem)


def _words(delivery: Delivery, action: Action | None, now: datetime, *, named: bool = False) -> tuple[str, str]:
    """Return title and body; `named`: with the names of workspaces."""
    if delivery.kind == DeliveryKind.DIGEST:
        return messages.digest(delivery.user, now)
    if delivery.kind == DeliveryKind.TEST:
        return gettext("Handrail test"), gettext("Notifications reach you here.")
    if delivery.kind == DeliveryKind.ALERT:
        return gettext("Handrail alert"), delivery.text
    if delivery.kind == DeliveryKind.GOING:
        return messages.going(delivery.user, named=named)
    return messages.for_channel(action, delivery.channel)


def _push(delivery: Delivery, action: Action | None, now: datetime):
    device = delivery.subscription
    payload = _payload(delivery, action, now)
    ttl = CLOSE_TTL if delivery.kind == DeliveryKind.CLOSE else OTHER_TTL
    if delivery.kind == DeliveryKind.ASK:
        ttl = max(1, int((action.expires_at - now).total_seconds()))
    headers = {"TTL": str(ttl), "Urgency": "normal" if delivery.kind == DeliveryKind.DIGEST else "high"}
    if action:
        headers["Topic"] = action.pk.hex  # the push service keeps only the newest message about it
    headers |= _authorization(device.endpoint)
    info = {"endpoint": device.endpoint, "keys": {"p256dh": device.p256dh, "auth": device.auth}}
    clear = json_text.dumps(payload, ensure_ascii=False).encode()
    body = WebPusher(info).encode(clear, content_encoding="aes128gcm")["body"]
    return lambda: _post(device.endpoint, body, headers)


def _payload(delivery: Delivery, action: Action | None, now: datetime) -> dict:
    """Return what the service worker gets; details and answers only while the device's person is signed in there."""
    receipt = secrets.token_urlsafe(24)
    Delivery.objects.filter(pk=delivery.pk).update(receipt_sha256=sha256(receipt))
    about = {"kind": delivery.kind, "tag": delivery.kind, "url": "/", "delivery": str(delivery.pk), "receipt": receipt}
    if action is None:
        named = has_live_session(delivery.subscription, now) and not settings_of(delivery.user).is_private
        title, body = _words(delivery, action, now, named=named)
        about |= {"url": messages.GOING_AT} if delivery.kind == DeliveryKind.GOING else {}
        body = body.replace(f"\n{settings.HANDRAIL_DESK_URL}{messages.GOING_AT}", "")
        return about | {"title": title, "body": body.replace(f"\n{settings.HANDRAIL_DESK_URL}/", "")}
    about |= {"tag": str(action.pk), "url": messages.address_of(action).removeprefix(settings.HANDRAIL_DESK_URL)}
    signed_in = has_live_session(delivery.subscription, now)
    wanted = settings_of(delivery.user)
    private = wanted.is_private or not signed_in
    if delivery.kind == DeliveryKind.CLOSE:
        return about | ({"title": gettext("No longer needed"), "body": ""} if private else messages.closed(action))
    about |= messages.ask(action, wanted, private=private)
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


def _post(endpoint: str, body: bytes, headers: dict) -> Outcome:
    sent = headers | {"Content-Encoding": "aes128gcm", "Content-Type": "application/octet-stream"}
    try:
        answer = requests.post(endpoint, data=body, headers=sent, timeout=TIMEOUT, allow_redirects=False, stream=True)
        answer.close()  # nothing of the answer is needed but its status
    except Unreachable as error:
        return Outcome(str(error))
    except requests.RequestException as error:
        if _is_unreachable(error):
            return Outcome("The push service's name leads to a private or special address.")
        return Outcome(f"The push service did not answer ({type(error).__name__}).", again=True)
    if answer.status_code in (200, 201, 202, 204):
        return Outcome()
    if answer.status_code in GONE:
        return Outcome("The device no longer takes notifications.", gone=True)
    again = answer.status_code in LATER or answer.status_code >= 500
    return Outcome(f"The push service answered {answer.status_code}.", again=again)


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


def _through(channel, title: str, body: str) -> Outcome:
    try:
        channels.send(channel, title, body)
    except channels.NotSent as error:
        return Outcome(str(error), again=True)
    return Outcome()


@transaction.atomic
def _record(delivery: Delivery, outcome: Outcome, now: datetime):
    """Store what became of a try; remove a device that is gone."""
    target = delivery.subscription or delivery.channel
    rows = type(target).objects.filter(pk=target.pk)
    if not outcome.problem:  # the delivery before its target, as where a target is deleted with its deliveries
        Delivery.objects.filter(pk=delivery.pk).update(sent_at=now, next_try_at=None, problem="")
        rows.update(last_success_at=now, failures=0)
        return
    logger.warning("a notification via %s was not sent: %s", delivery.via, outcome.problem)
    following = None
    if outcome.again and delivery.tries <= len(RETRIES):
        following = now + RETRIES[delivery.tries - 1]
    Delivery.objects.filter(pk=delivery.pk).update(next_try_at=following, problem=outcome.problem[:200])
    rows.update(failures=F("failures") + 1)
    if outcome.gone:
        PushSubscription.objects.filter(pk=target.pk).delete()
