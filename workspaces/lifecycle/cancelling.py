"""Cancel operations that are in progress."""

from dashboard.models import Actor, Team
from dashboard.problems import conflict, not_allowed
from workspaces import operations
from workspaces.lifecycle.states import record
from workspaces.models import Operation
from workspaces.operations import needs_approval

CANCEL_PERMISSIONS = {
    "snapshot": "use_workspace",
    "restore": "restore",
    "revise": "use_workspace",
    "archive": "use_workspace",
    "terminal": "use_workspace",
}


def permission_to_cancel(operation: Operation) -> str:
    """Return the permission needed to cancel the operation; empty if it cannot be cancelled."""
    # A fetch leaves nothing behind. A setup script that has started ends only by itself or by its timeout.
    fetched = operation.workspace is not None and operation.workspace.source.keys() & {"git", "upload", "fork"}
    if operation.kind == "create" and fetched and operation.progress.get("step", "files") == "files":
        return "create_workspace"
    if operations.WAITS in operation.progress:
        return "delete_workspace" if operation.kind == "trash" else "use_workspace"
    return CANCEL_PERMISSIONS.get(operation.kind, "")


def cancel_operation(workspace, operation: Operation, *, by: Actor):
    """Cancel a long operation. A restore or a revision can be cancelled until it changes the first entry.

    An agent ends a terminal only if it opened it, or a person allowed it: Problem 403.
    """
    if not permission_to_cancel(operation):
        raise conflict("This can't be cancelled any more.")
    wish = {"operation": str(operation.pk), "kind": operation.kind}
    needs_approval.require_for_others(workspace, "stop_operation", wish, began_by=operation.by, by=by)
    if operation.kind == "terminal" and needs_approval.is_unapproved(by) and not needs_approval.began(operation.by, by):
        raise not_allowed("An agent ends only the terminals that it opened.")
    with Team.objects.turn(workspace.team_id):
        if not operations.request_cancel(operation):
            raise conflict("It has ended or is already stopping.")
        record(workspace, by, "workspace.operation_stopped", {"kind": wish["kind"]})
