"""Webhooks to the receivers of instances, signed as Standard Webhooks has it.

Each attempt ends after TIMEOUT. Redirects and cookies are not used, and no proxy but the installation's.
"""

import json
import uuid
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from email.utils import parsedate_to_datetime

import aiohttp
from yarl import URL

from approvals.models import AapInstance, AapRequest
from approvals.models.aap import RETRY_FOR
from approvals.protocols.aap import wire
from approvals.protocols.aap.registrations import Delivery
from dashboard.net import outbound, standard_webhooks
from dashboard.workers.outbox import NotSent
from workspaces.services.outbound import only_reachable_in_task

TIMEOUT = 10  # seconds for one attempt, which is the protocol's limit
MAX_ANSWER = 10_000  # bytes
BUSY = (429, 503)  # Retry-After is honoured for these
FAILURES = (aiohttp.ClientError, OSError, TimeoutError, ValueError)  # ValueError: an invalid host name


class Unsafe(Exception):
    """The host resolves to a private or special address."""


def resolved_event(instance: AapInstance, request: AapRequest) -> dict:
    """Return the event of a resolved request. Each attempt has the same id; another decision has another one."""
    at = wire.resolved_at(request)
    return {
        "id": str(uuid.uuid5(request.pk, at)),
        "type": "request.resolved",
        "instance_id": str(instance.pk),
        "request_id": str(request.pk),
        "created_at": at,
    }


async def verify(instance: AapInstance, delivery: Delivery, now: datetime) -> str:
    """Send the verification challenge; return what is wrong with the response, "" if it is right. Raise Unsafe."""
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
        async with _post(delivery.url, delivery.secret, message, now) as answer:
            if answer.status != 200:
                return f"It answered {answer.status}."
            return "" if _echoes(await _read_body(answer), challenge) else "It did not return the challenge."
    except FAILURES as error:
        return _connection_problem(error)


async def deliver(url: str, secret: str, message: dict, now: datetime) -> None:
    """Send an event once. Raise NotSent."""
    try:
        async with _post(url, secret, message, now) as answer:
            if 200 <= answer.status < 300:
                return
            asked = answer.headers.get("Retry-After", "") if answer.status in BUSY else ""
            raise NotSent(f"It answered {answer.status}.", wait=min(_retry_after(asked, now), RETRY_FOR))
    except Unsafe:
        raise NotSent("Its host resolves to a private or special address.") from None
    except FAILURES as error:
        raise NotSent(_connection_problem(error)) from None


@asynccontextmanager
async def _post(url: str, secret: str, message: dict, now: datetime):
    """Post the event and yield the response, whose body is not read yet."""
    body = json.dumps(message).encode()
    timestamp = str(int(now.timestamp()))
    headers = {
        "Content-Type": "application/json",
        "Accept-Encoding": "identity",
        "User-Agent": "Handrail",
        **standard_webhooks.headers(secret, message["id"], timestamp, body),
    }
    session = aiohttp.ClientSession(
        timeout=aiohttp.ClientTimeout(total=TIMEOUT), cookie_jar=aiohttp.DummyCookieJar(), auto_decompress=False
    )
    with only_reachable_in_task() as guard:
        try:
            async with session:
                # `encoded`: exactly the registered URL.
                to = URL(url, encoded=True)
                by = await outbound.aiohttp_options(url)
                async with session.post(to, data=body, headers=headers, allow_redirects=False, **by) as answer:
                    yield answer
        except FAILURES as error:
            if guard.refused:
                raise Unsafe from error
            raise


async def _read_body(answer) -> bytes:
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


def _retry_after(retry_after: str, now: datetime) -> timedelta:
    """Parse Retry-After, which is in seconds or a date; 0 if it is neither."""
    try:
        if retry_after.isascii() and retry_after.isdigit():
            return timedelta(seconds=int(retry_after[:9]))
        return max(parsedate_to_datetime(retry_after).astimezone() - now, timedelta(0))
    except (ValueError, OverflowError):
        return timedelta(0)


def _connection_problem(error: Exception) -> str:
    return f"It could not be reached ({type(error).__name__})."
