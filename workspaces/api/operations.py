"""Operations of a workspace: list them, follow their progress, cancel one."""

from ninja import Router, Status

from dashboard.web import lookup
from dashboard.web.api_base import PROBLEMS
from workspaces import lifecycle
from workspaces.api import schemas
from workspaces.api.lookup import find, operation_out
from workspaces.models import Operation

router = Router(tags=["operations"])
LAST = 20
# Programs have endpoints of their own.
PROGRAMS = ("command", "service", "terminal")


@router.get("/workspaces/{key}/operations", response={200: schemas.OperationsOut} | PROBLEMS)
def list_operations(request, key: str):
    """List the latest operations of a workspace with their progress or outcome, newest first."""
    rows = _operations(find(request, key)).order_by("-created_at")[:LAST]
    return Status(200, {"operations": [operation_out(row) for row in rows]})


@router.get("/workspaces/{key}/operations/{operation_id}", response={200: schemas.OperationOut} | PROBLEMS)
def get_operation(request, key: str, operation_id: str):
    """Return an operation with its progress or outcome."""
    return Status(200, operation_out(_operation(find(request, key), operation_id)))


@router.post(
    "/workspaces/{key}/operations/{operation_id}/stop",
    response={202: schemas.OperationOut | schemas.AskedOut} | PROBLEMS,
)
def stop_operation(request, key: str, operation_id: str):
    """Cancel a snapshot, a restore, a revision, an archive, or the clone or import of a new workspace.

    It leaves nothing behind.
    """
    workspace = find(request, key)
    operation = _operation(workspace, operation_id)
    lifecycle.require_permission(request.auth, lifecycle.permission_to_cancel(operation) or "use_workspace", workspace)
    lifecycle.cancel_operation(workspace, operation, by=request.auth.actor)
    return Status(202, operation_out(_operation(workspace, operation_id)))


def _operations(workspace):
    return Operation.objects.select_related("workspace__runner").filter(workspace=workspace).exclude(kind__in=PROGRAMS)


def _operation(workspace, operation_id: str) -> Operation:
    return lookup.find(_operations(workspace), operation_id, "operation")
