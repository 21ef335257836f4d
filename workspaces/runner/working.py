"""Carry out one claimed operation, and record how it ended.

A database that is away, and a disk that is full, are waited for. What has not started is due again then; how something
ended is known here alone, and recorded as soon as the database takes it.
"""

import asyncio
import logging
import sqlite3

from django.db import Error

from dashboard.database.errors import is_away, is_full
from dashboard.database.retries import retried
from dashboard.door.entering import STOPPED
from dashboard.keys import redaction
from dashboard.models import Team
from workspaces import operations
from workspaces.models import Operation, Phase, ReasonCode
from workspaces.runner.job import Job
from workspaces.runner.operations import kind_named
from workspaces.runner.refusals import Again, Refused, outcome_of, record_stale_epoch, unclear

logger = logging.getLogger("handrail.runner")
PAUSE = 1.0  # seconds until the database, or the ledger, is asked again


async def carry_out(daemon, operation: Operation, recovering: bool):
    """Carry the operation out, or recover it after a crash, until it is settled, uncertain or due again."""
    try:
        kind = kind_named(operation.kind)
        job = Job(daemon, operation)
        daemon.expect_cancel(job)
        outcome = await _outcome(kind, job, recovering)
        await _record(daemon, _settle, kind, job, outcome)
    except operations.StaleEpoch:
        logger.warning("operation %s belongs to a later epoch", operation.kind)
        await _record(daemon, record_stale_epoch, operation)
    except Exception as error:
        # Nothing else would settle it, and an open exclusive operation blocks its workspace.
        logger.exception("operation %s could not be settled", operation.kind)
        reason = f"The runner could not record how it ended ({error!r:.200})."
        await _record(daemon, operations.declare_uncertain, operation, reason, ReasonCode.RUNNER_ERROR.value)


async def _record(daemon, function, *args):
    """Call the function until the database and the ledger can take what it asks of them; return what it returns."""
    while True:
        try:
            return await daemon.thread(function, *args)
        except (Error, sqlite3.Error) as error:
            if not _passes(error):
                raise
            logger.warning("%s is tried again: %s", function.__name__, error)
        await asyncio.sleep(PAUSE)


def _passes(error: Exception) -> bool:
    """Return whether the error says that there is no database or no room now."""
    return is_away(error) or is_full(error)


async def _outcome(kind, job: Job, recovering: bool) -> dict | None:
    """Return the outcome of the operation, or None if it is due again."""
    operation, daemon = job.operation, job.daemon
    try:
        if not recovering and (refused := await daemon.thread(_check_new, daemon, operation)):
            return refused.outcome()
        return await (kind.recover(job) if recovering else kind.perform(job))
    except (operations.StaleEpoch, asyncio.CancelledError):
        raise
    except Again:
        return None
    except Exception as error:
        if _passes(error) and not recovering and await _record(daemon, _has_not_started, operation):
            logger.warning("operation %s is due again: %s", operation.kind, error)
            await asyncio.sleep(PAUSE)
            return None
        return outcome_of(error, kind, operation)


def _has_not_started(operation: Operation) -> bool:
    """Return whether the start failed, and the database has none of what is written with it."""
    return operation.phase == Phase.CLAIMED and Operation.objects.filter(pk=operation.pk, phase=Phase.CLAIMED).exists()


def _check_new(daemon, operation: Operation) -> Refused | None:
    """Note a claimed operation in the ledger; return why it must not run, or None."""
    if _is_in_ledger(daemon, operation):
        reason = "This host already ran it; the database was restored to an earlier state."
        return unclear(reason, ReasonCode.RESTORED)
    daemon.ledger.write(operation.pk, operation.epoch, "claimed")
    is_refused = operation.kind in operations.STARTING_KINDS or operation.by.get("type") == "agent"
    if is_refused and operation.workspace and operations.is_stopped(operation.workspace.team_id):
        return Refused(STOPPED, ReasonCode.TEAM_STOPPED)
    return None


def _is_in_ledger(daemon, operation: Operation) -> bool:
    """Return whether the ledger says that the operation has started."""
    known = daemon.ledger.get(operation.pk)
    return known is not None and known[1] != "claimed"


@retried
def _settle(kind, job: Job, outcome: dict | None):
    if outcome is None:
        if _is_in_ledger(job.daemon, job.operation):
            job.daemon.ledger.write(job.operation.pk, job.operation.epoch, "claimed")
        operations.requeue(job.operation)
        return
    outcome = redaction.clean(outcome)
    with Team.objects.turn(job.operation.of_team):
        kind.finish(job, outcome)
        if outcome.get("uncertain"):
            operations.declare_uncertain(job.operation, outcome["reason"], outcome["reason_code"])
        else:
            operations.settle(job.operation, outcome)
    try:
        job.daemon.ledger.write(job.operation.pk, job.operation.epoch, "settled")
    except sqlite3.Error as error:  # one that started is never run again, whether or not this is noted
        logger.warning("the ledger cannot note an end: %s", error)
