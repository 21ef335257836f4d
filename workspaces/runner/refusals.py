"""Turn exceptions into the outcome of a failed operation: {"ok": False, "reason", "reason_code"}."""

import logging

from dashboard.problems import Problem
from workspaces import lifecycle
from workspaces.drivers.base import DriverError, FilesGone
from workspaces.models import Operation, Phase, ReasonCode
from workspaces.provisioning.git.running import CloneFailed
from workspaces.runner.reconcile.liveness import SYSTEM
from workspaces.store import Cancelled, StoreError
from workspaces.store.errors import path_of

CONFLICTS_NAMED = 1000  # paths that an outcome names
logger = logging.getLogger("handrail.runner")


class Refused(Exception):
    """An operation's bad outcome: `reason` for people, `code` for programs, `more` for further keys."""

    def __init__(self, reason: str, code: ReasonCode = ReasonCode.REFUSED, **more):
        super().__init__(reason)
        self.reason, self.code, self.more = reason, code, more

    def outcome(self) -> dict:
        return {"ok": False, "reason": self.reason, "reason_code": self.code.value, **self.more}


class Again(Exception):
    """An operation that has certainly not begun is due again, as its row says."""


def unclear(reason: str, code: ReasonCode = ReasonCode.RUNNER_STOPPED) -> Refused:
    """Return a Refused for an operation that may or may not have happened; it is not retried automatically."""
    return Refused(reason, code, uncertain=True)


def outcome_of(error: Exception, kind, operation) -> dict:
    """Return the outcome of an operation that raised; unexpected errors are logged."""
    return _refused(error, kind, operation).outcome()


def _refused(error: Exception, kind, operation) -> Refused:
    match error:
        case Refused():
            return error
        case Problem(extra={"secret": secret}):
            return Refused(error.detail, ReasonCode.TOKEN, secret=secret)
        case Problem():
            return Refused(error.detail)
        case Cancelled():
            return Refused(f"Cancelled. {kind.when_cancelled}", ReasonCode.CANCELLED)
        case StoreError():
            return Refused(f"{kind.when_store_fails}{error}", ReasonCode.STORE)
        case FilesGone():
            return Refused(str(error), ReasonCode.STATE)
        case DriverError():
            return Refused(str(error), ReasonCode.DRIVER)
        case CloneFailed():
            return Refused(str(error), ReasonCode(error.code), **error.more)
    logger.error("operation %s", operation.kind, exc_info=error)
    if isinstance(error, OSError):
        return Refused(f"System error: {error}{path_of(error)}.", ReasonCode.SYSTEM)
    reason = f"Internal error in the runner ({error!r:.200}){path_of(error):.1000}."
    return Refused(reason, ReasonCode.RUNNER_ERROR, uncertain=operation.phase == Phase.STARTED)


def record_stale_epoch(operation: Operation):
    """Record that a runner came back with an operation that another one had taken over."""
    if operation.workspace is not None:
        data = {"kind": operation.kind, "epoch": operation.epoch, "operation": str(operation.pk)}
        lifecycle.record(operation.workspace, SYSTEM, "operation.refused", data)
