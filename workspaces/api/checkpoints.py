"""Checkpoints: memory and files of a paused microVM, kept under a name to continue from."""

from datetime import datetime
from typing import Annotated
from uuid import UUID

from ninja import Router, Schema, Status
from pydantic import Field, StringConstraints

from dashboard.problems import not_allowed
from dashboard.web import lookup
from dashboard.web.api_base import PROBLEMS
from workspaces import operations
from workspaces.api import schemas
from workspaces.api.lookup import ended_well, find, operation_out, workspace_out
from workspaces.lifecycle import agents_at_work
from workspaces.models import Checkpoint
from workspaces.services import checkpoints

router = Router(tags=["checkpoints"])


class NewCheckpoint(schemas.Strict):
    name: Annotated[str, StringConstraints(min_length=1, max_length=100)]


class ForkOfCheckpoint(schemas.Strict):
    key: schemas.Key


class CheckpointOut(Schema):
    id: UUID
    name: str
    workspace: str = Field(description="its key")
    snapshot: int = Field(description="the number of the snapshot that has the same files")
    environment: str
    is_ready: bool = Field(description="whether it can be restored and forked")
    bytes: int | None = Field(description="on disk: the memory and both disks; null until it is kept")
    by: str
    created_at: datetime


class CheckpointPage(Schema):
    checkpoints: list[CheckpointOut]
    cursor: str | None


def _out(row: Checkpoint) -> dict:
    return {name: getattr(row, name) for name in ("id", "name", "bytes", "created_at")} | {
        "workspace": row.workspace.key,
        "snapshot": row.snapshot_number,
        "environment": str(row.environment),
        "is_ready": row.bytes is not None,
        "by": row.by.get("label", ""),
    }


@router.post("/workspaces/{key}/checkpoints", response={201: CheckpointOut} | PROBLEMS)
def keep(request, key: str, wish: NewCheckpoint):
    """Keep memory and files of a paused microVM under a name; answers when they are copied."""
    workspace = find(request, key, "keep_checkpoint")
    made, operation = checkpoints.keep(workspace, wish.name, by=request.auth.actor)
    ended_well(operations.wait(operation, 120))
    made.refresh_from_db()
    return Status(201, _out(made))


@router.get("/workspaces/{key}/checkpoints", response={200: CheckpointPage} | PROBLEMS)
def list_checkpoints(request, key: str, cursor: str | None = None):
    """List the checkpoints of a workspace, newest first, 50 per page."""
    rows = find(request, key).checkpoints.select_related("workspace", "environment")
    page = lookup.page_of(rows, cursor)
    return Status(200, {"checkpoints": [_out(row) for row in page.rows], "cursor": page.cursor})


@router.get("/checkpoints/{checkpoint_id}", response={200: CheckpointOut} | PROBLEMS)
def get_checkpoint(request, checkpoint_id: UUID):
    """Return a checkpoint."""
    return Status(200, _out(_find(request, checkpoint_id, "read")))


@router.post("/checkpoints/{checkpoint_id}/restore", response={202: schemas.OperationOut} | PROBLEMS)
def restore(request, checkpoint_id: UUID):
    """Continue the workspace from the checkpoint; its files of now are in a snapshot first (`safety_snapshot`)."""
    found = _find(request, checkpoint_id, "restore")
    return Status(202, operation_out(checkpoints.restore(found, by=request.auth.actor)))


@router.post("/checkpoints/{checkpoint_id}/fork", response={201: schemas.WorkspaceOut} | PROBLEMS)
def fork(request, checkpoint_id: UUID, wish: ForkOfCheckpoint):
    """Create a workspace that continues from the checkpoint, any number of times."""
    found = _find(request, checkpoint_id, "create_workspace")
    return Status(201, workspace_out(checkpoints.fork(found, wish.key, caller=request.auth)))


@router.delete("/checkpoints/{checkpoint_id}", response={204: None} | PROBLEMS)
def delete_checkpoint(request, checkpoint_id: UUID):
    """Delete a checkpoint. For people only."""
    checkpoints.delete(_find(request, checkpoint_id, "delete_checkpoint"), by=request.auth.actor)
    return Status(204, None)


def _find(request, checkpoint_id: UUID, verb: str) -> Checkpoint:
    rows = Checkpoint.objects.visible_to(request.auth)
    related = ("workspace__team", "workspace__environment", "workspace__runner", "environment", "snapshot")
    found = lookup.find(rows.select_related(*related), checkpoint_id, "checkpoint")
    if not request.auth.can(verb, found.workspace.team_id):
        raise not_allowed("You don't have permission to do this.")
    if verb != "read":
        agents_at_work.enter(found.workspace, request.auth)
    return found
