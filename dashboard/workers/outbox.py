"""The outbox: what is to be sent to others. One process at a time tries it, again after longer and longer waits.

A row of it is one message, or a receiver that gets its messages one after another. Whoever tries a row first moves its
`next_try_at` ahead. That is a lease: until then no other process tries it, and if the process is killed, the row is due
again. So a message may arrive twice, and none is lost. A Sender says which rows are due, and what is sent where.
"""

import logging
import random
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, ClassVar

from django.db import models, transaction

from dashboard.database import clock
from dashboard.workers.deadlines import Late, within

logger = logging.getLogger("handrail.outbox")
LOOKED_AT = 500  # rows
DEADLINE = 20  # seconds for one try; a timeout of a socket begins anew with each byte
LEASE = timedelta(seconds=90)


class NotSent(Exception):
    """It was not taken; the text can be shown."""

    def __init__(self, problem: str, *, again: bool = True, wait: timedelta = timedelta(0)):
        super().__init__(problem)
        self.again = again  # whether another try makes sense
        self.wait = wait  # the least wait before it


class NotNeeded(Exception):
    """There is nothing to send; the text, if any, is kept as the reason."""


@dataclass(frozen=True)
class Message:
    send: Callable[[], Any]  # has a thread of its own, and must not use the database. Raises NotSent
    about: Any = None  # what the sender needs to record that it was sent


class Outgoing(models.Model):
    """A row of the outbox."""

    next_try_at = models.DateTimeField(null=True, blank=True)  # from when on it may be tried again; end of a lease
    failures = models.PositiveIntegerField(default=0)  # in a row
    problem = models.CharField(max_length=200, blank=True)  # of the last try, in words

    class Meta:
        abstract = True


class Sender(ABC):
    """What is sent where, for one kind of rows, and what its other tables keep of that."""

    waits: ClassVar[Sequence[int]]  # seconds after the first failure in a row, the second …
    gives_up = False  # after the last of `waits`; else that one repeats
    jitter = 0.0  # by which part a wait is longer or shorter, at random
    at_a_time = 20  # rows

    @abstractmethod
    def due(self, now: datetime) -> Sequence[Outgoing]:
        """Return the rows that may be tried now, in their order."""

    def turn(self, row: Outgoing) -> Hashable:
        """Return what only one row at a time is tried for."""
        return row.pk

    @abstractmethod
    def message(self, row: Outgoing, now: datetime) -> Message:
        """Return what is sent for a row that is claimed. Raise NotNeeded, NotSent."""

    @abstractmethod
    def sent(self, row: Outgoing, about: Any, now: datetime) -> int:
        """Record that the message was taken; return how much that was."""

    def failed(self, row: Outgoing, about: Any, error: NotSent, now: datetime):  # noqa: B027 (nothing by default)
        """Record besides the row that the message was not taken."""

    def wait(self, failures: int) -> timedelta:
        """Return the wait after so many failures in a row."""
        seconds = self.waits[min(failures, len(self.waits)) - 1]
        return timedelta(seconds=seconds * random.uniform(1 - self.jitter, 1 + self.jitter))


def send_due(sender: Sender, *, seconds: float, before_each: Callable[[], Any] = lambda: None) -> int:
    """Send what is due for so many seconds, calling `before_each` round; return how much was taken."""
    taken, until = 0, time.monotonic() + seconds
    while time.monotonic() < until:
        before_each()
        claimed = claim(sender, clock.now())
        if not claimed:
            break
        answers = within(DEADLINE, [message.send for _, message in claimed])
        for (row, message), answer in zip(claimed, answers, strict=True):
            taken += _record_or_note(sender, row, message, answer)
    return taken


def claim(sender: Sender, now: datetime) -> list[tuple[Outgoing, Message]]:
    """Claim rows that are due; return them with their messages."""
    claimed: list[tuple[Outgoing, Message]] = []
    turns = set()
    for row in sender.due(now)[:LOOKED_AT]:
        if len(claimed) == sender.at_a_time:
            break
        if sender.turn(row) not in turns and (found := _claim_one(sender, row, now)):
            claimed.append(found)
            turns.add(sender.turn(row))
    return claimed


def _claim_one(sender: Sender, row: Outgoing, now: datetime) -> tuple[Outgoing, Message] | None:
    lease = now + LEASE
    if not _unchanged(row).update(next_try_at=lease):
        return None  # another process was first
    # Read after the claim: others may have changed it, and sent what it had to send.
    row = type(row)._default_manager.filter(pk=row.pk, next_try_at=lease).first()
    if row is None:
        return None
    try:
        return row, sender.message(row, now)
    except NotNeeded as reason:
        _unchanged(row).update(next_try_at=None, failures=0, problem=str(reason))
    except NotSent as error:
        _note_failure(sender, row, error, now)
    except Exception:  # must not keep the others from being sent
        logger.exception("%s %s could not be prepared", row._meta.verbose_name, row.pk)
        _note_failure(sender, row, NotSent("It could not be prepared; the queue's log says why.", again=False), now)
    return None


def _record_or_note(sender: Sender, row: Outgoing, message: Message, answer: Any) -> int:
    """Store what became of a try; if that breaks down, only that the row failed, so that the others are stored."""
    now = clock.now()
    try:
        return record(sender, row, message, answer, now)
    except Exception:
        logger.exception("what became of %s %s could not be stored", row._meta.verbose_name, row.pk)
    unknown = NotSent("What became of it could not be stored; the queue's log says why.")
    error = _as_not_sent(row, answer) if isinstance(answer, Exception) else unknown
    try:
        with transaction.atomic():
            _note_failure(sender, row, error, now)
    except Exception:  # it is tried again after its lease
        logger.exception("the failure of %s %s could not be stored", row._meta.verbose_name, row.pk)
    return 0


@transaction.atomic
def record(sender: Sender, row: Outgoing, message: Message, answer: Any, now: datetime) -> int:
    """Store what became of a try: `answer` is an exception if it failed. Return how much was taken."""
    if not isinstance(answer, Exception):
        _unchanged(row).update(next_try_at=None, failures=0, problem="")
        return sender.sent(row, message.about, now)
    error = _as_not_sent(row, answer)
    _note_failure(sender, row, error, now)
    sender.failed(row, message.about, error, now)
    return 0


def _as_not_sent(row: Outgoing, error: Exception) -> NotSent:
    if isinstance(error, NotSent):
        return error
    if isinstance(error, Late):
        return NotSent(f"It did not answer within {DEADLINE} s.")
    logger.error("%s %s could not be sent", row._meta.verbose_name, row.pk, exc_info=error)
    return NotSent("It could not be sent; the queue's log says why.")


def _note_failure(sender: Sender, row: Outgoing, error: NotSent, now: datetime):
    failures = row.failures + 1
    ends = sender.gives_up and (not error.again or failures > len(sender.waits))
    following = None if ends else now + max(sender.wait(failures), error.wait)
    _unchanged(row).update(failures=failures, problem=str(error)[:200], next_try_at=following)
    why = f"{error} ({error.__cause__})" if error.__cause__ else error
    logger.warning("%s %s failed, %s in a row: %s", row._meta.verbose_name, row.pk, failures, why)


def _unchanged(row: Outgoing) -> models.QuerySet:
    """Return the row if nobody has changed since when it is due, or leased it anew."""
    return type(row)._default_manager.filter(pk=row.pk, next_try_at=row.next_try_at)
