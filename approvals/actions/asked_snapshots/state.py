"""The progress of the snapshot from the moment of asking, for the card and the API."""

from dataclasses import dataclass

from approvals.models import Action
from workspaces import operations

LATE_S = 10  # seconds
TAKEN, TAKING, FAILED, DELETED = "taken", "taking", "failed", "deleted"


@dataclass(frozen=True)
class AskedFiles:
    """The files as they were when the agent asked.

    `snapshot` is the number of the snapshot, None unless the state is "taken"; `reason` says why it failed; `late_s` is
    how many seconds after the agent asked it was taken.
    """

    state: str
    snapshot: int | None = None
    reason: str = ""
    late_s: int = 0

    @property
    def is_late(self) -> bool:
        """Whether the files may have changed between the question and the snapshot, for example without a runner."""
        return self.late_s >= LATE_S

    def as_json(self) -> dict:
        return {"state": self.state, "snapshot": self.snapshot, "reason": self.reason}


def asked_files(action: Action) -> AskedFiles | None:
    """Return the state; None for an action for which no snapshot is taken when it is asked."""
    operation, snapshot = action.asked_operation, action.asked_snapshot
    if snapshot:
        return AskedFiles(TAKEN, snapshot.number, late_s=_seconds_late(operation))
    if operation is None:
        return None
    if not operations.is_over(operation):
        return AskedFiles(TAKING)
    if (operation.outcome or {}).get("ok"):
        return AskedFiles(DELETED)
    return AskedFiles(FAILED, reason=str((operation.outcome or {}).get("reason") or ""))


def _seconds_late(operation) -> int:
    if operation is None or operation.settled_at is None:
        return 0
    return max(0, int((operation.settled_at - operation.due_at).total_seconds()))
