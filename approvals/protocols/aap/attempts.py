"""Attempts to register or change an instance: one at a time for each idempotency key, and a limit for each hour."""

import asyncio
from datetime import datetime, timedelta

from asgiref.sync import sync_to_async
from django.db.models import Sum

from approvals.models import AapInstance, AapInstanceUpdate
from approvals.models.aap import AapAttempt
from approvals.protocols.aap import webhooks, wire
from approvals.protocols.aap.registrations import BAD_URL_CODE, Delivery, bad_url
from dashboard.database import clock
from dashboard.database.threads import query_in_thread
from dashboard.live.long_poll import place_for
from dashboard.problems import Problem, conflict, invalid

MAX_ATTEMPTS = 60  # of one agent within ATTEMPT_WINDOW
ATTEMPT_WINDOW = timedelta(hours=1)
CUT_OFF = timedelta(seconds=webhooks.TIMEOUT + 5)  # an attempt without a result after this time was cut off
KEEP_FAILED = timedelta(days=1)  # a failed attempt is deleted after this time
KEEP_SUCCEEDED = timedelta(days=8)  # a change that succeeded is deleted after this time; the protocol requires 7 days
MAX_WAITS = 3  # for requests with the same key
POLL_INTERVAL = 0.25  # seconds


async def start_or_join(begin, caller) -> tuple[AapAttempt, bool]:
    """Return `begin()`, which is (row, whether this request carries out the attempt).

    If another request with the same key carries it out, wait for its result: its row, or the Problem that it ended
    with. Problem 409, 429.
    """
    for _ in range(MAX_WAITS):
        row, is_ours = await sync_to_async(begin)()
        if is_ours or row.ready_at:
            return row, is_ours
        with place_for(caller):
            await _wait_for_end(row)
    raise conflict("Another request with this key is under way. Send it again.", code="registration_in_progress")


async def _wait_for_end(row: AapAttempt) -> None:
    """Wait until another request's attempt is over. Problem 400 or 422 if it failed."""

    def load() -> tuple[AapAttempt | None, bool]:
        current = type(row).objects.filter(pk=row.pk, tried_at=row.tried_at).first()
        return current, current is not None and is_under_way(current)

    while (found := await query_in_thread(load))[1]:
        await asyncio.sleep(POLL_INTERVAL)
    current, _ = found
    if current and current.problem_code and not current.ready_at:
        raise _failure(current)


def is_under_way(row: AapAttempt) -> bool:
    return row.ready_at is None and not row.problem_code and clock.now() - row.tried_at < CUT_OFF


def is_replay(row: AapAttempt | None, sha256: str) -> bool:
    """Return whether the row is of the same input and succeeded or is under way. Problem 409 if the input differs."""
    if row is None or not (row.ready_at or is_under_way(row)):
        return False
    if row.submission_sha256 != sha256:
        raise conflict("This Idempotency-Key was used with different input.", code="idempotency_conflict")
    return True


def renew(row: AapAttempt, sha256: str, now: datetime) -> None:
    """Set the fields of a row for a new attempt. The caller saves it."""
    is_recent = row.tried_at is not None and now - row.tried_at < ATTEMPT_WINDOW
    row.attempts = row.attempts + 1 if is_recent else 1
    row.submission_sha256, row.tried_at, row.problem, row.problem_code = sha256, now, "", ""


def check_limit(agent, now: datetime) -> None:
    """Raise Problem 429 if the agent has made too many attempts. The caller holds the lock on the agent's row."""
    instances = AapInstance.objects.filter(agent=agent, tried_at__gt=now - ATTEMPT_WINDOW)
    updates = AapInstanceUpdate.objects.filter(instance__agent=agent, tried_at__gt=now - ATTEMPT_WINDOW)
    if sum(rows.aggregate(n=Sum("attempts"))["n"] or 0 for rows in (instances, updates)) >= MAX_ATTEMPTS:
        raise Problem(
            429, f"An agent may register or change instances {MAX_ATTEMPTS} times an hour.", code="rate_limit"
        )


async def verify(row: AapAttempt, instance: AapInstance, delivery: Delivery) -> None:
    """Verify that the receiver expects this registration. Problem 400, 422."""
    try:
        row.problem = (await webhooks.verify(instance, delivery, row.tried_at))[:200]
        row.problem_code = wire.UNVERIFIED if row.problem else ""
    except webhooks.Unsafe:
        row.problem, row.problem_code = "Its host resolves to a private or special address.", BAD_URL_CODE
    if row.problem_code:
        await sync_to_async(_give_up)(row)
        raise _failure(row)


def _give_up(row: AapAttempt) -> None:
    mine = type(row).objects.filter(pk=row.pk, tried_at=row.tried_at)
    mine.update(problem=row.problem, problem_code=row.problem_code)


def _failure(row: AapAttempt) -> Problem:
    if row.problem_code == BAD_URL_CODE:
        return bad_url()
    return invalid(f"The receiver could not be verified: {row.problem}", code=row.problem_code)


def overtaken_problem() -> Problem:
    return conflict(
        "Another request changed this, or the token was revoked. Send it again.", code="registration_overtaken"
    )
