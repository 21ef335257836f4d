"""What registering and changing an instance share: one attempt at a time for each key, and so many in an hour."""

import asyncio
from datetime import datetime, timedelta

from asgiref.sync import sync_to_async
from django.db.models import Sum

from approvals.aap import webhooks, wire
from approvals.aap.registrations import BAD_URL_CODE, Delivery, bad_url
from approvals.models import AapInstance, AapInstanceUpdate
from approvals.models.aap import AapAttempt
from dashboard import clock
from dashboard.long_poll import place_for
from dashboard.problems import Problem, conflict, invalid
from dashboard.threads import query_in_thread, release_request_thread

MAX = 60  # of one agent, to register or to change, within WITHIN
WITHIN = timedelta(hours=1)
CUT_OFF = timedelta(seconds=webhooks.TIMEOUT + 5)  # after which one that has not ended is taken for cut off
FORGOTTEN = timedelta(days=1)  # after which one that did not succeed is deleted
KEPT = timedelta(days=8)  # a change that succeeded; the protocol wants 7
ROUNDS = 3  # waits for others with the same key
PAUSE = 0.25  # seconds between two looks at what another request does


async def start(begin, caller) -> tuple[AapAttempt, bool]:
    """Call `begin`, which returns (row, whether the attempt is ours to go on with); return the same.

    An attempt of another request with the same key is waited for: it is ours as well, and so is the Problem in which
    it ends. Problem 409, 429.
    """
    for _ in range(ROUNDS):
        row, is_ours = await sync_to_async(begin)()
        if is_ours or row.ready_at:
            return row, is_ours
        with place_for(caller):
            await _ended(row)
    raise conflict("This key is in use. Ask again.", code="registration_in_progress")


async def _ended(row: AapAttempt) -> None:
    """Wait until the attempt is over. Problem 400, 422 in which it ended."""

    def look() -> tuple[AapAttempt | None, bool]:
        now_is = type(row).objects.filter(pk=row.pk, tried_at=row.tried_at).first()
        return now_is, now_is is not None and is_under_way(now_is)

    while (found := await query_in_thread(look))[1]:
        release_request_thread()
        await asyncio.sleep(PAUSE)
    now_is, _ = found
    if now_is and now_is.problem_code and not now_is.ready_at:
        raise _failure(now_is)


def is_under_way(row: AapAttempt) -> bool:
    return row.ready_at is None and not row.problem_code and clock.now() - row.tried_at < CUT_OFF


def is_known(row: AapAttempt | None, sha256: str) -> bool:
    """Return whether there is such an attempt that has succeeded or is under way. Problem 409 if it is another one."""
    if row is None or not (row.ready_at or is_under_way(row)):
        return False
    if row.submission_sha256 != sha256:
        raise conflict("This Idempotency-Key was used with different input.", code="idempotency_conflict")
    return True


def count(row: AapAttempt, sha256: str, now: datetime) -> None:
    """Note in a row that is to be saved that a new attempt begins."""
    is_recent = row.tried_at is not None and now - row.tried_at < WITHIN
    row.attempts = row.attempts + 1 if is_recent else 1
    row.submission_sha256, row.tried_at, row.problem, row.problem_code = sha256, now, "", ""


def check_limit(agent, now: datetime) -> None:
    """Raise Problem 429 if the agent has tried too often. Call it while the agent's row is locked."""
    instances = AapInstance.objects.filter(agent=agent, tried_at__gt=now - WITHIN)
    updates = AapInstanceUpdate.objects.filter(instance__agent=agent, tried_at__gt=now - WITHIN)
    if sum(rows.aggregate(n=Sum("attempts"))["n"] or 0 for rows in (instances, updates)) >= MAX:
        raise Problem(429, f"An agent may register or change instances {MAX} times an hour.", code="rate_limit")


async def verify(row: AapAttempt, instance: AapInstance, delivery: Delivery) -> None:
    """Ask the receiver whether it expects this. Problem 400, 422."""
    try:
        row.problem = (await webhooks.verify(instance, delivery, row.tried_at))[:200]
        row.problem_code = wire.UNVERIFIED if row.problem else ""
    except webhooks.Unsafe:
        row.problem, row.problem_code = "Its name leads to a private or special address.", BAD_URL_CODE
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


def overtaken() -> Problem:
    return conflict("This was overtaken, or its token was revoked. Ask again.", code="registration_overtaken")
