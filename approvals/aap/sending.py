"""Send `request.resolved` webhooks, with retries for a week.

The queue is the rows of resolved requests with `notify_at`, so that no crash or restart loses a webhook. A process that
is killed after the request and before the row is updated sends the same webhook again, with the same id.
"""

import asyncio
import logging
import random
import time
from dataclasses import dataclass
from datetime import datetime, timedelta
from urllib.parse import urlsplit

from django.db.models import F

from approvals.aap import registrations, webhooks
from approvals.models import AapInstance, AapRequest
from approvals.models.aap import RETRY_FOR
from dashboard import clock
from dashboard.keys import keyring

logger = logging.getLogger("handrail.aap")
AT_A_TIME = 8  # receivers, at most one of each host
LOOKED_AT = 500  # requests
LEASE = timedelta(seconds=60)  # in which no other process sends to the same receiver
RETRIES = [timedelta(seconds=seconds) for seconds in (3, 10, 30, 120, 600, 3600, 3 * 3600)]  # the last one repeats


@dataclass(frozen=True)
class Job:
    instance: AapInstance
    request: AapRequest
    secret: str
    message: dict


def send_due(seconds: float = 5) -> int:
    """Send due webhooks for at most `seconds`; return how many receivers accepted one."""
    sent, until = 0, time.monotonic() + seconds
    while time.monotonic() < until and (jobs := _claim(clock.now())):
        answers = asyncio.run(_send(jobs, clock.now()))
        for job, answer in zip(jobs, answers, strict=True):
            sent += _record(job, answer, clock.now())
    return sent


def forget(now: datetime) -> None:
    """Give up the webhooks that could not be sent within RETRY_FOR."""
    # Twice, since a request may wait for its decision for as long as RETRY_FOR.
    old = AapRequest.objects.filter(notify_at__lt=now - 2 * RETRY_FOR).exclude(action__status="pending")
    old.update(notify_at=None)


def _claim(now: datetime) -> list[Job]:
    """Claim instances of different hosts for this process; return one request to send for each."""
    waiting = AapRequest.objects.due(now).order_by("notify_at").values_list("instance", flat=True)[:LOOKED_AT]
    found = AapInstance.objects.in_bulk(waiting)
    jobs, hosts = [], set()
    for instance in [found[pk] for pk in dict.fromkeys(waiting)]:
        host = urlsplit(instance.url).hostname
        if len(jobs) < AT_A_TIME and host not in hosts and (job := _job(instance, now)):
            jobs.append(job)
            hosts.add(host)
    return jobs


def _job(instance: AapInstance, now: datetime) -> Job | None:
    """Claim the instance and return a request to send; None if another process was first or none is left."""
    free = AapInstance.objects.filter(pk=instance.pk, next_try_at=instance.next_try_at, deleted_at=None)
    instance.next_try_at = now + LEASE
    if not free.update(next_try_at=instance.next_try_at):
        return None
    instance.refresh_from_db(fields=["url", "value"])  # it may have another receiver by now
    # Queried after the claim: another process may have sent it before. Requests that failed come last.
    waiting = AapRequest.objects.unsent(now).filter(instance=instance).select_related("action")
    request = waiting.order_by("tries", "notify_at").first()
    if request is None or not instance.url:
        _free(instance)
        return None
    try:
        secret = keyring.load().decrypt(instance.value, registrations.associated_data(instance)).decode()
    except keyring.Unreadable:
        job = Job(instance, request, "", {})
        _record(job, webhooks.SendResult("Its signing secret can't be decrypted. Register the instance again."), now)
        return None
    return Job(instance, request, secret, webhooks.resolved_event(instance, request))


async def _send(jobs: list[Job], now: datetime) -> list[webhooks.SendResult]:
    return await asyncio.gather(*(_attempt(job, now) for job in jobs))


async def _attempt(job: Job, now: datetime) -> webhooks.SendResult:
    try:
        return await webhooks.deliver(job.instance.url, job.secret, job.message, now)
    except Exception:  # must not keep the other webhooks of this round from being recorded
        logger.exception("could not send a webhook of AAP instance %s", job.instance.pk)
        return webhooks.SendResult("Handrail failed to send it; see the log of the queue.")


def _record(job: Job, answer: webhooks.SendResult, now: datetime) -> bool:
    """Store the result of one attempt; return whether the receiver accepted it."""
    # A decision that was revoked meanwhile (decisions.take_back) has set a new `notify_at`.
    mine = AapRequest.objects.filter(pk=job.request.pk, notify_at=job.request.notify_at)
    if not answer.problem:
        mine.update(notify_at=None, sent_at=now, tries=0)
        _free(job.instance)
        return True
    failures = job.instance.failures + 1
    mine.update(notify_at=now + _delay(job.request.tries + 1), tries=F("tries") + 1)
    following = now + max(_delay(failures), min(answer.retry_after, RETRY_FOR))
    _claimed(job.instance).update(failures=failures, problem=answer.problem[:200], next_try_at=following)
    logger.warning("a webhook of AAP instance %s failed: %s", job.instance.pk, answer.problem)
    return False


def _free(instance: AapInstance):
    _claimed(instance).update(next_try_at=None, failures=0, problem="")


def _claimed(instance: AapInstance):
    """Return the row if this process still holds its lease and it was not removed."""
    return AapInstance.objects.filter(pk=instance.pk, next_try_at=instance.next_try_at)


def _delay(failures: int) -> timedelta:
    """Return the wait after so many failures, with jitter."""
    return RETRIES[min(failures, len(RETRIES)) - 1] * random.uniform(0.8, 1.2)
