"""Take a snapshot of a workspace before it is trusted with more, so that there is a state from before to go back to.

Who opens a host to a workspace (`services/network.py`) or gives it another environment, and with it other secrets,
variables and hosts (`services/environments.py`), calls `snapshot_before` first.
"""

from dashboard.models import Actor
from dashboard.problems import unavailable
from workspaces import operations
from workspaces.models import Operation, State

KIND = "boundary"
TIMEOUT_S = 60.0
MAX_LABEL = 120


def snapshot_before(workspace, what: str, *, by: Actor) -> Operation | None:
    """Take a snapshot with the label "before WHAT", and wait for it; the newest one will do if nothing has changed.

    Nothing is taken of a workspace that is not up: pausing and stopping took a snapshot. Nor while its runner is not
    up, since then no program of it reaches anything. Call it outside of a transaction. Problem 503 if it fails.
    """
    workspace.refresh_from_db(fields=["state", "head", "runner"])
    is_up = workspace.state == State.READY and workspace.runner is not None and workspace.runner.is_alive
    if not is_up or workspace.head_id is None:
        return None
    args = {"kind": KIND, "label": f"before {what}"[:MAX_LABEL], "unless_same": True}
    operation = operations.submit("snapshot", workspace=workspace, by=by, args=args, exclusive=True)
    operation = operations.wait(operation, TIMEOUT_S)
    outcome = operation.outcome or {"reason": "the runner did not answer in time"}
    if not outcome.get("ok"):
        reason = str(outcome.get("reason")).rstrip(".")
        raise unavailable(
            f"The snapshot before this failed ({reason}), so nothing was changed.", code="snapshot_failed"
        )
    return operation
