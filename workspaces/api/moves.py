"""Long work on one workspace: what is under way, how far it is, and asking it to stop."""

from uuid import UUID

from ninja import Router, Status

from dashboard.contract import PROBLEMS
from dashboard.problems import not_found
from workspaces import lifecycle, schemas
from workspaces.api.finding import find, move_out
from workspaces.models import Effect

router = Router(tags=["moves"])
LAST = 20
# Programs have addresses of their own.
PROGRAMS = [f"{lifecycle.KINDS}.{kind}" for kind in ("command", "service", "terminal")]


@router.get("/workspaces/{key}/moves", response={200: schemas.MovesOut} | PROBLEMS)
def list_moves(request, key: str):
    """What was asked of a workspace, newest first: what is under way, and how the last of it ended."""
    rows = _moves(find(request, key)).order_by("-created_at")[:LAST]
    return Status(200, {"moves": [move_out(row) for row in rows]})


@router.get("/workspaces/{key}/moves/{move_id}", response={200: schemas.MoveOut} | PROBLEMS)
def get_move(request, key: str, move_id: str):
    return Status(200, move_out(_move(find(request, key), move_id)))


@router.post("/workspaces/{key}/moves/{move_id}/stop", response={202: schemas.MoveOut} | PROBLEMS)
def stop_move(request, key: str, move_id: str):
    """Ask a snapshot, a restore, an archive, or a clone or import of a new workspace to stop. It leaves nothing."""
    workspace = find(request, key)
    effect = _move(workspace, move_id)
    lifecycle.may(request.auth, lifecycle.right_to_stop(effect) or "use_workspace", workspace)
    lifecycle.stop_move(workspace, effect, by=request.auth.actor)
    return Status(202, move_out(_move(workspace, move_id)))


def _moves(workspace):
    return Effect.objects.select_related("workspace").filter(workspace=workspace).exclude(kind__in=PROGRAMS)


def _move(workspace, move_id: str) -> Effect:
    try:
        return _moves(workspace).get(pk=UUID(move_id))
    except (ValueError, Effect.DoesNotExist):
        raise not_found("move") from None
