"""Browsers that take Web Push: subscribe, renew, forget, and say what they are."""

import binascii
import re
from base64 import urlsafe_b64decode

from cryptography.hazmat.primitives.asymmetric import ec
from django.contrib.auth import HASH_SESSION_KEY
from django.contrib.sessions.models import Session
from django.utils.crypto import constant_time_compare

from approvals.models import PushSubscription
from approvals.notify.hashes import sha256
from dashboard.database import clock
from dashboard.people.sessions import device_name
from dashboard.people.sign_ins import record_for_person
from dashboard.problems import conflict, invalid
from workspaces.services.outbound import is_acceptable_endpoint

MAX_DEVICES = 20  # of one person


def subscribe(user, found: dict, *, session_key: str, user_agent: str) -> PushSubscription:
    """Store a browser's subscription, or renew it for this session. Problem 422 for an invalid one, 409 for too many.

    A browser that somebody else used before becomes this person's: its endpoint belongs to whoever holds it.
    """
    endpoint, keys = found.get("endpoint"), found.get("keys")
    if not isinstance(endpoint, str) or not is_acceptable_endpoint(endpoint):
        raise invalid("The push service's address must be https, and not a private address.")
    if not isinstance(keys, dict) or not _are_keys(keys.get("p256dh"), keys.get("auth")):
        raise invalid("The subscription's keys are not valid.")
    name = sha256(endpoint)
    others = PushSubscription.objects.filter(user=user).exclude(endpoint_sha256=name)
    if others.count() >= MAX_DEVICES:
        raise conflict(f"You have {MAX_DEVICES} devices. Remove one first.", code="too_many_devices")
    fields = {"user": user, "endpoint": endpoint, "p256dh": keys["p256dh"], "auth": keys["auth"]}
    fields |= {"session_key": session_key, "user_agent": user_agent[:300]}
    known = PushSubscription.objects.filter(endpoint_sha256=name, user=user).exists()
    device, _ = PushSubscription.objects.update_or_create(
        endpoint_sha256=name, defaults=fields, create_defaults=fields | {"created_at": clock.now()}
    )
    if not known:
        record_for_person(user, "person.device_added", device=device_name(user_agent))
    return device


def unsubscribe(user, endpoint: str):
    PushSubscription.objects.filter(user=user, endpoint_sha256=sha256(endpoint)).delete()


def has_live_session(device: PushSubscription, now) -> bool:
    """Return whether the session that switched it on still signs the device's person in."""
    session = Session.objects.filter(session_key=device.session_key, expire_date__gt=now).first()
    signed_in = session.get_decoded() if session else {}
    return constant_time_compare(signed_in.get(HASH_SESSION_KEY, ""), device.user.get_session_auth_hash())


def forget_session(session_key: str | None):
    """Remove the devices of a session that ends: a browser that is signed out is told nothing."""
    if session_key:
        PushSubscription.objects.filter(session_key=session_key).delete()


def _are_keys(p256dh, auth) -> bool:
    """Return whether these are a point on P-256 and sixteen bytes, as RFC 8291 asks."""
    try:
        point, secret = _decoded(p256dh), _decoded(auth)
        ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), point)
    except (ValueError, TypeError, AttributeError, binascii.Error):
        return False
    return len(point) == 65 and len(secret) == 16


def _decoded(text: str) -> bytes:
    return urlsafe_b64decode(text + "=" * (-len(text) % 4)) if re.fullmatch("[A-Za-z0-9_-]{1,128}", text) else b""
