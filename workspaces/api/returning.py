"""Come back to a paused or stopped workspace by choice."""

from ninja import Router, Schema, Status
from pydantic import Field

from dashboard.web.api_base import PROBLEMS
from workspaces import lifecycle
from workspaces.api import schemas
from workspaces.api.lookup import find
from workspaces.services import returning
from workspaces.services.returning import Choice

router = Router(tags=["workspaces"])


class NewReturn(schemas.Strict):
    choice: str = Choice.SAME.value  # same, snapshot, clean, notes or environment
    snapshot: int | None = Field(None, ge=1, lt=1 << 31)
    environment: str | None = Field(None, max_length=80, description="for the choice environment: its name")


class ReturnOut(Schema):
    operation: str
    kept: str | None


@router.post("/workspaces/{key}/return", response={202: ReturnOut | schemas.AskedOut} | PROBLEMS)
def come_back(request, key: str, wish: NewReturn):
    """Resume with the same files, those of a snapshot, a clean checkout, or only the notes beside the source anew.

    The last two keep what was there as a fork; `kept` is its key. With `environment` the files stay and the setup of
    another environment of the same driver runs on them, after a snapshot; only people may, and it can be undone. 409
    unless the workspace is paused or stopped.
    """
    workspace = find(request, key, "use_workspace")
    if needed := returning.NEEDS.get(wish.choice):
        lifecycle.require_permission(request.auth, needed, workspace)
    chosen = {"number": wish.snapshot, "environment": wish.environment or ""}
    operation, kept = returning.come_back(workspace, wish.choice, caller=request.auth, **chosen)
    return Status(202, {"operation": str(operation.pk), "kept": kept and kept.key})
