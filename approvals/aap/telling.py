"""Tell receivers which requests are decided or over: each once, again after a failure, for a week.

Nothing is queued by what decides: the rows of decided requests that are not told yet are what there is to send, so no
crash and no restart loses one. A process that is killed in between sends the last message again, which a receiver
knows by its id.
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
from approvals.models.aap import TELL_WITHIN
from dashboard import clock
from dashboard.keys import keyring

logger = logging.getLogger("handrail.aap")
AT_A_TIME = 8  # receivers, each of another host
LOOKED_AT = 500  # requests
LEASE = timedelta(seconds=60)  # within which another host does not send to the same receiver
RETRIES = [timedelta(seconds=seconds) for seconds in (3, 10, 30, 120, 600, 3600, 3 * 3600)]  # the last one for ever


@dataclass(frozen=True)
class Job:
    instance: AapInstance
    request: AapRequest
    secret: str
    message: dict


def send_due(seconds: float = 5) -> int:
    """Tell what is due, for a while, so that the queue gets its turn; return how many requests were told."""
    told, until = 0, time.monotonic() + seconds
    while time.monotonic() < until and (jobs := _claim(clock.now())):
        answers = asyncio.run(_send(jobs, clock.now()))
        for job, answer in zip(jobs, answers, strict=True):
            told += _record(job, answer, clock.now())
    return told


def forget(now: datetime) -> None:
    """Stop looking at the requests whose receivers could not be told within the protocol's time."""
    # At least one TELL_WITHIN after the decision: a request waits for a person for as long at most.
    old = AapRequest.objects.filter(notify_at__lt=now - 2 * TELL_WITHIN).exclude(action__status="pending")
    old.update(notify_at=None)


def _claim(now: datetime) -> list[Job]:
    """Return one request each of some instances, no two of one host, that this process alone tells now."""
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
    """Claim the instance and return what to tell its receiver; None if another host was first, or there is nothing."""
    free = AapInstance.objects.filter(pk=instance.pk, next_try_at=instance.next_try_at, deleted_at=None)
    instance.next_try_at = now + LEASE
    if not free.update(next_try_at=instance.next_try_at):
        return None
    instance.refresh_from_db(fields=["url", "value"])  # it may have another receiver by now
    # Loaded only now: another host may have told it between the two queries. One that fails lets others pass.
    waiting = AapRequest.objects.to_tell(now).filter(instance=instance).select_related("action")
    request = waiting.order_by("tries", "notify_at").first()
    if request is None or not instance.url:
        _free(instance)
        return None
    try:
        secret = keyring.load().decrypt(instance.value, registrations.associated_data(instance)).decode()
    except keyring.Unreadable:
        job = Job(instance, request, "", {})
        _record(job, webhooks.Answer("Its secret can't be decrypted. Register the instance again."), now)
        return None
    return Job(instance, request, secret, webhooks.resolved(instance, request))


async def _send(jobs: list[Job], now: datetime) -> list[webhooks.Answer]:
    return await asyncio.gather(*(_attempt(job, now) for job in jobs))


async def _attempt(job: Job, now: datetime) -> webhooks.Answer:
    try:
        return await webhooks.deliver(job.instance.url, job.secret, job.message, now)
    except Exception:  # one that can't be sent must not keep the others from being told
        logger.exception("the receiver of AAP instance %s could not be told", job.instance.pk)
        return webhooks.Answer("It could not be told; the queue's log says why.")


def _record(job: Job, answer: webhooks.Answer, now: datetime) -> bool:
    """Store what became of one attempt; return whether the receiver took it."""
    # Not if an answer was taken back meanwhile (decisions.take_back), which makes the request due anew.
    mine = AapRequest.objects.filter(pk=job.request.pk, notify_at=job.request.notify_at)
    if not answer.problem:
        mine.update(notify_at=None, told_at=now, tries=0)
        _free(job.instance)
        return True
    failures = job.instance.failures + 1
    mine.update(notify_at=now + _delay(job.request.tries + 1), tries=F("tries") + 1)
    following = now + max(_delay(failures), min(answer.pause, TELL_WITHIN))
    _claimed(job.instance).update(failures=failures, problem=answer.problem[:200], next_try_at=following)
    logger.warning("the receiver of AAP instance %s took nothing: %s", job.instance.pk, answer.problem)
    return False


def _free(instance: AapInstance):
    _claimed(instance).update(next_try_at=None, failures=0, problem="")


def _claimed(instance: AapInstance):
    """Return the row while this process holds it: not after its lease has ended, nor when it is removed."""
    return AapInstance.objects.filter(pk=instance.pk, next_try_at=instance.next_try_at)


def _delay(failures: int) -> timedelta:
    """Return how long to wait after so many failures, a little different each time."""
    return RETRIES[min(failures, len(RETRIES)) - 1] * random.uniform(0.8, 1.2)
