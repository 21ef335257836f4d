"""Operations: work on a workspace or a team's store that must happen at most once. Submit, claim, start, settle.

An operation is a row. Its phase changes by conditional updates on the epoch, so a runner whose lease has expired can no
longer change it. The runner is woken after the commit of a new operation, and also polls in case the wake is lost.
"""

import asyncio
import logging
import time
from contextlib import nullcontext
from datetime import timedelta

from django.conf import settings
from django.db import IntegrityError, InterfaceError, OperationalError, transaction
from django.db.models import CharField, DateTimeField, Exists, F, OuterRef, Q, UUIDField

from dashboard.database import clock
from dashboard.database.errors import is_away
from dashboard.database.prepared import Prepared, Slot
from dashboard.database.retries import retried
from dashboard.database.threads import query_in_thread, standing_aside
from dashboard.door.entering import refuse_when_stopped
from dashboard.models import Actor, Team
from dashboard.workers import hints
from dashboard.workers.wakes import wake
from workspaces.host import paths, place
from workspaces.models import Operation, Phase, Runner, StoreIdentity, Workspace
from workspaces.models.runners import RUNNER_TIMEOUT
from workspaces.operations import needs_approval
from workspaces.provisioning import placement

logger = logging.getLogger("handrail.operations")
# Kinds that bring a workspace up or run a program in it; refused while the team is stopped.
STARTING_KINDS = frozenset(
    {
        "create",
        "resume",
        "rebuild",
        "restore_checkpoint",
        "hold",
        "command",
        "maintain",
        "service",
        "terminal",
        "rehearse",
    }
)
LEASE = timedelta(seconds=settings.HANDRAIL_LEASE_SECONDS)
MAX_CLAIMED = 50  # operations in one round
WAITS = "waits"  # in the progress of an operation that was put off: why
WAITING_KINDS = frozenset({"pause", "stop", "trash", "put_away"})  # put off while their driver's backend is away
FIRST = "take_lead"  # what else was asked for in its workspace waits for it: it would find that nothing runs
PUT_OFF = timedelta(seconds=2)
ASK_FOR_HOST_S = 1.0  # between two looks whether the host that is waited for answers


class StaleEpoch(Exception):
    """The operation has a newer epoch or is over; this epoch's result must not be recorded."""


def submit(kind: str, *, workspace, args=None, by: Actor, exclusive=False, dedupe=None, runner=None) -> Operation:
    """Create an operation in the caller's transaction.

    `kind` is a name in workspaces.runner.operations.KINDS or in workspaces.extensions.kinds. With `dedupe`, an existing
    operation with this key is returned instead. `runner`: another one than the workspace's. While the team is stopped,
    Problem 409 (code stopped) for a kind that starts something, and for all that an agent asks for.
    """
    needs_approval.check_operation(workspace, kind, by=by)
    if known := _known(dedupe):
        return known
    if kind in STARTING_KINDS or by.type == "agent":
        refuse_when_stopped(workspace.team_id)
    operation = Operation(
        runner_id=workspace.runner_id if runner is None else runner.pk,
        workspace=workspace,
        kind=kind,
        args=args or {},
        exclusive=exclusive,
        dedupe=dedupe,
        due_at=clock.now(),
        by=_by_column(by),
    )
    try:
        with transaction.atomic() if dedupe else nullcontext():
            operation.save(force_insert=True)
    except IntegrityError:
        if known := _known(dedupe):  # another host submitted it at the same moment
            return known
        raise
    transaction.on_commit(wake_runner)
    return operation


def _known(dedupe: str | None) -> Operation | None:
    return Operation.objects.filter(dedupe=dedupe).first() if dedupe else None


def submit_for_team(kind: str, *, team, args: dict, by: Actor) -> Operation | None:
    """Create an operation on the team's store in the caller's transaction; None while one of this kind is open."""
    try:
        with transaction.atomic():
            operation = Operation.objects.create(team=team, kind=kind, args=args, due_at=clock.now(), by=_by_column(by))
    except IntegrityError:
        return None
    transaction.on_commit(wake_runner)
    return operation


def is_stopped(team_id) -> bool:
    return Team.objects.filter(pk=team_id, stopped_at__isnull=False).exists()


def _by_column(by: Actor) -> dict:
    return by.as_json | ({"approval": by.approval} if by.approval else {})


def actor_of(operation: Operation) -> Actor:
    return Actor(**operation.by)


def wake_runner():
    """Wake the runners, of this host and of others; if this is lost, they poll soon."""
    wake_runner_here()
    hints.send(hints.RUNNERS)


def wake_runner_here():
    wake(paths.runtime() / "nudge")


# For the runner ------------------------------------------------------------------------------------------------------


def claimable(runner) -> list[Operation]:
    """Return the due operations that the runner may claim now, oldest first, at most MAX_CLAIMED.

    An operation waits for an exclusive one of its workspace that is in flight, and for exclusive ones due earlier; all
    wait until the workspace's Run is taken over.
    """
    return _CLAIMABLE.rows(runner=runner.pk, host=runner.host, now=clock.now())


def _claimable():
    runner, host = Slot("runner", UUIDField()), Slot("host", CharField())
    same = Operation.objects.filter(workspace=OuterRef("workspace"), exclusive=True).exclude(pk=OuterRef("pk"))
    under_way = same.filter(phase__in=[Phase.CLAIMED, Phase.STARTED])
    earlier = same.filter(phase=Phase.DUE).filter(
        Q(due_at__lt=OuterRef("due_at"))
        | Q(due_at=OuterRef("due_at"), created_at__lt=OuterRef("created_at"))
        | Q(kind=FIRST)
    )
    # A team's snapshots are on one host, so that what no host has begun belongs to that one.
    elsewhere = StoreIdentity.objects.exclude(host__in=["", host]).values("team")
    free = Q(runner=None) & ~Q(workspace__team__in=elsewhere) & ~Q(team__in=elsewhere)
    due = Operation.objects.filter(Q(runner=runner) | free, phase=Phase.DUE, due_at__lte=Slot("now", DateTimeField()))
    due = due.filter(~Exists(under_way), Q(kind=FIRST) | ~Exists(earlier))
    return due.order_by("due_at", "created_at")[:MAX_CLAIMED]


_CLAIMABLE = Prepared(_claimable)


@retried
def is_placed_on(operation: Operation, runner) -> bool:
    """Return whether the runner may claim a due operation: its workspace is on no other host, and may be on this one.

    A workspace without a place gets one now; while no host is fit, the operation waits and says why.
    """
    if (
        operation.runner_id is not None
        or operation.kind not in placement.STARTING_KINDS
        or Runner.objects.members().count() < 2
    ):
        return True
    with Team.objects.turn(operation.of_team):
        return placement.place_waiting(operation) == runner


@retried
def claim(operation: Operation, runner) -> Operation | None:
    """Claim a due operation; None if another runner was faster or an exclusive one of its workspace is in flight."""
    try:
        with transaction.atomic():
            won = Operation.objects.filter(pk=operation.pk, phase=Phase.DUE).update(
                phase=Phase.CLAIMED, epoch=F("epoch") + 1, runner=runner, lease_until=clock.now() + LEASE
            )
    except IntegrityError:
        return None
    return _WITH_WORKSPACE.rows(pk=operation.pk)[0] if won else None


_WITH_WORKSPACE = Prepared(lambda: Operation.objects.select_related("workspace").filter(pk=Slot("pk", UUIDField())))


def _claimed(operation: Operation, *phases):
    return Operation.objects.filter(pk=operation.pk, epoch=operation.epoch, phase__in=phases)


def start(operation: Operation):
    """Mark the operation as started: from now on it may have had an effect. Raises StaleEpoch."""
    now = clock.now()
    if not _claimed(operation, Phase.CLAIMED).update(phase=Phase.STARTED, started_at=now, lease_until=now + LEASE):
        raise StaleEpoch(operation.pk)
    operation.phase, operation.started_at = Phase.STARTED, now


def has_started(operation: Operation) -> bool:
    """Return whether the database has the operation as started in this very epoch."""
    return _claimed(operation, Phase.STARTED).exists()


def extend(runner):
    """Extend the leases of the operations that this runner has in flight; called with each heartbeat."""
    Operation.objects.in_flight().filter(runner=runner).update(lease_until=clock.now() + LEASE)


def record_progress(operation: Operation, progress: dict):
    """Record the progress of an operation in flight; ignored if another epoch has it."""
    _claimed(operation, Phase.CLAIMED, Phase.STARTED).update(progress=progress)
    operation.progress = progress


def request_cancel(operation: Operation) -> bool:
    """Request cancellation, which may come too late: the outcome tells. False if it is over or already requested."""
    return bool(Operation.objects.open().filter(pk=operation.pk, cancelled_at=None).update(cancelled_at=clock.now()))


def settle(operation: Operation, outcome: dict):
    """Settle the operation with the outcome {"ok": bool, "reason": message, …}. Raises StaleEpoch."""
    if not _claimed(operation, Phase.CLAIMED, Phase.STARTED).update(
        phase=Phase.SETTLED, outcome=outcome, settled_at=clock.now(), lease_until=None
    ):
        raise StaleEpoch(operation.pk)
    operation.phase, operation.outcome = Phase.SETTLED, outcome


def declare_uncertain(operation: Operation, reason: str, code: str):
    """Mark an operation whose effect is unknown; it is not retried automatically. Raises StaleEpoch."""
    outcome = {"ok": False, "reason": reason, "reason_code": code}
    if not _claimed(operation, Phase.CLAIMED, Phase.STARTED).update(
        phase=Phase.UNCERTAIN, outcome=outcome, settled_at=clock.now(), lease_until=None
    ):
        raise StaleEpoch(operation.pk)
    operation.phase = Phase.UNCERTAIN


def requeue(operation: Operation):
    """Requeue an operation that was claimed but certainly not started."""
    _claimed(operation, Phase.CLAIMED, Phase.STARTED).update(phase=Phase.DUE, lease_until=None, started_at=None)


def put_behind(operation: Operation, earlier: Operation):
    """Let the operation be due after another; what that one submits on its end comes before it."""
    due_at = max(clock.now(), earlier.due_at) + timedelta(milliseconds=1)
    _claimed(operation, Phase.CLAIMED, Phase.STARTED).update(due_at=due_at)


def put_off(operation: Operation, why: str):
    """Make the operation due a little later; call `requeue` after it. It has to be repeatable from its beginning."""
    later = {"due_at": clock.now() + PUT_OFF, "progress": operation.progress | {WAITS: why}}
    _claimed(operation, Phase.CLAIMED, Phase.STARTED).update(**later)


def expired_claims(runner):
    """Return the operations that another host claimed and did not start before its lease expired.

    Only those without a workspace or of one whose files are on no host yet: the files of others are on their host,
    which may be alive. Creations that are due on a host that does not answer are among them.
    """
    held = Operation.objects.filter(phase=Phase.CLAIMED, lease_until__lt=clock.now())
    begun_nowhere = Q(workspace__runner=None) | Q(kind="create", workspace__head=None)
    silent = Q(runner__heartbeat_at__lt=clock.now() - RUNNER_TIMEOUT)
    waiting = Operation.objects.filter(silent, phase=Phase.DUE, kind="create", workspace__head=None)
    return (held.filter(begun_nowhere) | waiting).exclude(runner=runner)


def requeue_expired_claims(runner):
    """Requeue expired claims.

    A late update by the first host has an older epoch once the operation is claimed again, and is refused.
    """
    for operation in expired_claims(runner).select_related("workspace", "runner"):
        if operation.workspace is not None and placement.pinned_to(operation.workspace):
            continue
        with transaction.atomic():
            progress = operation.progress | {"left": operation.runner.host}
            rows = Operation.objects.filter(pk=operation.pk, phase=operation.phase, epoch=operation.epoch)
            if rows.update(phase=Phase.DUE, runner=None, lease_until=None, progress=progress) and operation.workspace:
                placement.put(operation.workspace, None)


def take_over(operation: Operation) -> Operation:
    """Give the operation a new epoch after its runner crashed, so that a late update of the old one is refused."""
    Operation.objects.in_flight().filter(pk=operation.pk).update(epoch=F("epoch") + 1, lease_until=clock.now() + LEASE)
    return Operation.objects.select_related("workspace").get(pk=operation.pk)


# Waiting -------------------------------------------------------------------------------------------------------------


def _poll_intervals(timeout: float):
    """Yield for each poll (seconds to sleep after it, at most a quarter; whether to ask if its host answers at all)."""
    now, pause = time.monotonic(), 0.01
    deadline, ask_at = now + timeout, now + ASK_FOR_HOST_S
    while (now := time.monotonic()) < deadline:
        yield pause, now >= ask_at
        ask_at = now + ASK_FOR_HOST_S if now >= ask_at else ask_at
        pause = min(pause * 1.5, 0.25)


def _load(known: Operation) -> Operation:
    """Return the operation as it is now; as it was known while the database is away."""
    try:
        return Operation.objects.get(pk=known.pk)
    except (OperationalError, InterfaceError) as error:
        if not is_away(error):
            raise
        logger.warning("operation %s is awaited: %s", known.kind, error)
        return known


def _is_in_vain(operation: Operation) -> bool:
    """Return whether the host of its workspace is away, so that nobody tells how it ends; False without a database."""
    try:
        workspace = Workspace.objects.select_related("runner").filter(pk=operation.workspace_id).first()
        return workspace is not None and place.is_away(workspace)
    except (OperationalError, InterfaceError) as error:
        if not is_away(error):
            raise
        return False


def is_over(operation: Operation) -> bool:
    return operation.phase in (Phase.SETTLED, Phase.UNCERTAIN)


def wait(operation: Operation, timeout: float, until=is_over) -> Operation:
    """Wait until `until(operation)` is true, `timeout` seconds have passed, or the host of its workspace is away.

    Return the operation as it is then.
    """
    with standing_aside() as ask:
        operation = ask(_load, operation)
        for pause, ask_for_host in _poll_intervals(timeout):
            if until(operation) or (ask_for_host and ask(_is_in_vain, operation)):
                break
            time.sleep(pause)
            operation = ask(_load, operation)
    return operation


async def wait_async(operation: Operation, timeout: float, until=is_over, *, patient: bool = False) -> Operation:
    """Like `wait`, for async code; if `patient`, also while the host is away."""
    operation = await query_in_thread(_load, operation)
    for pause, ask_for_host in _poll_intervals(timeout):
        if until(operation):
            break
        if ask_for_host and not patient and await query_in_thread(_is_in_vain, operation):
            break
        await asyncio.sleep(pause)
        operation = await query_in_thread(_load, operation)
    return operation
