"""What must happen at most once: submit, claim, start, settle.

An effect is a row. Its phase moves by conditional updates that name the epoch, so a runner that was asleep for longer
than its lease changes nothing any more. Whoever submits one nudges the runner after the commit; a lost nudge costs the
runner's next look (half a second), never the effect.
"""

import asyncio
import socket
import time
from datetime import timedelta

from asgiref.sync import sync_to_async
from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models import Exists, F, OuterRef, Q

from dashboard import clock
from dashboard.models import Actor
from workspaces import places
from workspaces.models import Effect, Phase

LEASE = timedelta(seconds=settings.HANDRAIL_LEASE_SECONDS)


class Lost(Exception):
    """Another epoch has this effect now; what this one does must not count."""


def submit(kind: str, *, workspace, args=None, by: Actor, exclusive=False, dedupe=None) -> Effect:
    """Ask for an effect in the caller's transaction. `kind` is the dotted path of a workspaces.runner Kind.

    With `dedupe` the effect that has this key already is returned: the same wish twice is one effect.
    """
    with transaction.atomic():
        if dedupe and (known := Effect.objects.filter(dedupe=dedupe).first()):
            return known
        effect = Effect.objects.create(
            runner=workspace.runner,
            workspace=workspace,
            kind=kind,
            args=args or {},
            exclusive=exclusive,
            dedupe=dedupe,
            due_at=clock.now(),
            by={"type": by.type, "id": by.id, "label": by.label},
        )
    transaction.on_commit(nudge)
    return effect


def actor_of(effect: Effect) -> Actor:
    return Actor(**effect.by)


def nudge():
    """Wake the runner; it looks by itself soon if this is lost."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.setblocking(False)
        try:
            sender.sendto(b".", str(places.runtime() / "nudge"))
        except OSError:
            pass  # no runner, or its queue is full of nudges


# For the runner ------------------------------------------------------------------------------------------------------


def claimable(runner):
    """Due effects that nothing stands in the way of, oldest first.

    One exclusive effect of a workspace at a time; and what is not exclusive waits for an earlier exclusive one.
    """
    same = Effect.objects.filter(workspace=OuterRef("workspace"), exclusive=True).exclude(pk=OuterRef("pk"))
    under_way = same.filter(phase__in=[Phase.CLAIMED, Phase.STARTED])
    earlier = same.filter(phase=Phase.DUE).filter(
        Q(due_at__lt=OuterRef("due_at")) | Q(due_at=OuterRef("due_at"), created_at__lt=OuterRef("created_at"))
    )
    due = Effect.objects.filter(Q(runner=runner) | Q(runner=None), phase=Phase.DUE, due_at__lte=clock.now())
    return due.filter(~Exists(under_way), ~Exists(earlier)).order_by("due_at", "created_at")


def claim(effect: Effect, runner) -> Effect | None:
    """Take a due effect; None when somebody was faster, or another exclusive one of its workspace is under way."""
    try:
        with transaction.atomic():
            won = Effect.objects.filter(pk=effect.pk, phase=Phase.DUE).update(
                phase=Phase.CLAIMED, epoch=F("epoch") + 1, runner=runner, lease_until=clock.now() + LEASE
            )
    except IntegrityError:
        return None
    return Effect.objects.select_related("workspace").get(pk=effect.pk) if won else None


def _mine(effect: Effect, *phases):
    return Effect.objects.filter(pk=effect.pk, epoch=effect.epoch, phase__in=phases)


def start(effect: Effect):
    """From here on it may have happened. Raises Lost."""
    now = clock.now()
    if not _mine(effect, Phase.CLAIMED).update(phase=Phase.STARTED, started_at=now, lease_until=now + LEASE):
        raise Lost(effect.pk)
    effect.phase, effect.started_at = Phase.STARTED, now


def extend(runner):
    """Renew the leases of what this runner has under way (its heart beats)."""
    Effect.objects.in_flight().filter(runner=runner).update(lease_until=clock.now() + LEASE)


def note(effect: Effect, progress: dict):
    _mine(effect, Phase.CLAIMED, Phase.STARTED).update(progress=progress)
    effect.progress = progress


def ask_to_stop(effect: Effect) -> bool:
    """Somebody no longer wants it. It may be too late: the outcome says. False when it is over or was asked before."""
    return bool(Effect.objects.open().filter(pk=effect.pk, cancelled_at=None).update(cancelled_at=clock.now()))


def settle(effect: Effect, outcome: dict):
    """It is over: outcome {"ok": bool, "reason": words, …}. Raises Lost."""
    if not _mine(effect, Phase.CLAIMED, Phase.STARTED).update(
        phase=Phase.SETTLED, outcome=outcome, settled_at=clock.now(), lease_until=None
    ):
        raise Lost(effect.pk)
    effect.phase, effect.outcome = Phase.SETTLED, outcome


def declare_uncertain(effect: Effect, reason: str):
    """Nobody knows whether it happened; it is never run again by itself. Raises Lost."""
    if not _mine(effect, Phase.CLAIMED, Phase.STARTED).update(
        phase=Phase.UNCERTAIN, outcome={"ok": False, "reason": reason}, settled_at=clock.now(), lease_until=None
    ):
        raise Lost(effect.pk)
    effect.phase = Phase.UNCERTAIN


def give_back(effect: Effect):
    """Claimed, and certainly not started: somebody may claim it again."""
    _mine(effect, Phase.CLAIMED, Phase.STARTED).update(phase=Phase.DUE, lease_until=None, started_at=None)


def free_what_the_silent_hold(runner):
    """What another host claimed, did not begin, and let its lease run out on, is anybody's again.

    Only what belongs to no host yet: a workspace's files are where they are, and a silent host is not a dead one. What
    that host says of it later is of an older epoch, and refused.
    """
    held = Effect.objects.filter(phase=Phase.CLAIMED, lease_until__lt=clock.now(), workspace__runner=None)
    held.exclude(runner=runner).update(phase=Phase.DUE, runner=None, lease_until=None)


def take_over(effect: Effect) -> Effect:
    """After a crash of the runner that had it: the same effect in a new epoch, so that a late answer counts nothing."""
    Effect.objects.in_flight().filter(pk=effect.pk).update(epoch=F("epoch") + 1, lease_until=clock.now() + LEASE)
    return Effect.objects.select_related("workspace").get(pk=effect.pk)


# For whoever waits ---------------------------------------------------------------------------------------------------


def _pauses(timeout: float):
    """Seconds to sleep between two looks: short at first, a quarter of a second later."""
    deadline, pause = time.monotonic() + timeout, 0.01
    while time.monotonic() < deadline:
        yield pause
        pause = min(pause * 1.5, 0.25)


def _look(pk) -> Effect:
    return Effect.objects.get(pk=pk)


def is_over(effect: Effect) -> bool:
    return effect.phase in (Phase.SETTLED, Phase.UNCERTAIN)


def wait(effect: Effect, timeout: float, until=is_over) -> Effect:
    """The effect as it is when `until` holds, or when `timeout` seconds are over."""
    effect = _look(effect.pk)
    for pause in _pauses(timeout):
        if until(effect):
            break
        time.sleep(pause)
        effect = _look(effect.pk)
    return effect


async def settled(effect: Effect, timeout: float, until=is_over) -> Effect:
    """`wait` for async code."""
    look = sync_to_async(_look)
    effect = await look(effect.pk)
    for pause in _pauses(timeout):
        if until(effect):
            break
        await asyncio.sleep(pause)
        effect = await look(effect.pk)
    return effect
