"""What a receiver gets: messages signed by Standard Webhooks, to addresses that agents name.

Each attempt is over after TIMEOUT, whatever the receiver does. No redirect is followed, no proxy and no cookie used.
"""

import base64
import hashlib
import hmac
import json
import uuid
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from email.utils import parsedate_to_datetime

import aiohttp
from yarl import URL

from approvals.aap import wire
from approvals.aap.registrations import Delivery
from approvals.models import AapInstance, AapRequest
from approvals.notify.reach import only_reachable_here

TIMEOUT = 10  # seconds for one attempt, which is the protocol's limit
MAX_ANSWER = 10_000  # bytes
BUSY = (429, 503)  # whose Retry-After is followed
FAILURES = (aiohttp.ClientError, OSError, TimeoutError, ValueError)  # ValueError: a host that is no name


class Unsafe(Exception):
    """The address leads to a private or special one."""


@dataclass(frozen=True)
class Answer:
    """What became of one attempt: taken, or the problem in words and how long the receiver asks to be left alone."""

    problem: str = ""
    pause: timedelta = timedelta(0)


def resolved(instance: AapInstance, request: AapRequest) -> dict:
    """Return the message that the request is decided or over: the same at each attempt, another for another answer."""
    at = wire.resolved_at(request)
    return {
        "id": str(uuid.uuid5(request.pk, at)),
        "type": "request.resolved",
        "instance_id": str(instance.pk),
        "request_id": str(request.pk),
        "created_at": at,
    }


async def verify(instance: AapInstance, delivery: Delivery, now: datetime) -> str:
    """Ask the receiver whether it expects this registration; return what is wrong with its answer, "" for yes.

    Raise Unsafe.
    """
    challenge = str(uuid.uuid4())
    message = {
        "id": str(uuid.uuid4()),
        "type": "webhook.verification",
        "registration_id": delivery.registration_id,
        "instance_id": str(instance.pk),
        "created_at": wire.time(now),
        "challenge": challenge,
    }
    try:
        async with _posted(delivery.url, delivery.secret, message, now) as answer:
            if answer.status != 200:
                return f"It answered {answer.status}."
            return "" if _echoes(await _read(answer), challenge) else "It did not give the challenge back."
    except FAILURES as error:
        return _unreached(error)


async def deliver(url: str, secret: str, message: dict, now: datetime) -> Answer:
    """Make one attempt to deliver a message."""
    try:
        async with _posted(url, secret, message, now) as answer:
            if 200 <= answer.status < 300:
                return Answer()
            pause = _pause(answer.headers.get("Retry-After", ""), now) if answer.status in BUSY else timedelta(0)
            return Answer(f"It answered {answer.status}.", pause)
    except Unsafe:
        return Answer("Its name leads to a private or special address.")
    except FAILURES as error:
        return Answer(_unreached(error))


@asynccontextmanager
async def _posted(url: str, secret: str, message: dict, now: datetime):
    """Post the message and yield the answer, of which nothing but the head is read yet."""
    body = json.dumps(message).encode()
    timestamp = str(int(now.timestamp()))
    headers = {
        "Content-Type": "application/json",
        "Accept-Encoding": "identity",
        "User-Agent": "Handrail",
        "webhook-id": message["id"],
        "webhook-timestamp": timestamp,
        "webhook-signature": signature(secret, message["id"], timestamp, body),
    }
    session = aiohttp.ClientSession(
        timeout=aiohttp.ClientTimeout(total=TIMEOUT), cookie_jar=aiohttp.DummyCookieJar(), auto_decompress=False
    )
    with only_reachable_here() as guard:
        try:
            async with session:
                # `encoded`: exactly the address that was registered.
                to = URL(url, encoded=True)
                async with session.post(to, data=body, headers=headers, allow_redirects=False) as answer:
                    yield answer
        except FAILURES as error:
            if guard.refused:
                raise Unsafe from error
            raise


async def _read(answer) -> bytes:
    found = b""
    async for chunk in answer.content.iter_any():
        found += chunk
        if len(found) > MAX_ANSWER:
            return b""
    return found


def _echoes(raw: bytes, challenge: str) -> bool:
    try:
        return json.loads(raw) == {"challenge": challenge}
    except (ValueError, RecursionError):
        return False


def signature(secret: str, message_id: str, timestamp: str, body: bytes) -> str:
    """Return the value of webhook-signature."""
    key = base64.b64decode(secret.removeprefix("whsec_"))
    digest = hmac.digest(key, f"{message_id}.{timestamp}.".encode() + body, hashlib.sha256)
    return f"v1,{base64.b64encode(digest).decode()}"


def _pause(retry_after: str, now: datetime) -> timedelta:
    """Return how long a Retry-After asks to wait, in seconds or until a date; 0 if it says nothing."""
    try:
        if retry_after.isascii() and retry_after.isdigit():
            return timedelta(seconds=int(retry_after[:9]))
        return max(parsedate_to_datetime(retry_after).astimezone() - now, timedelta(0))
    except (ValueError, OverflowError):
        return timedelta(0)


def _unreached(error: Exception) -> str:
    return f"It could not be reached ({type(error).__name__})."
