"""Changes of a workspace, and their export."""

from django.http import HttpResponse
from ninja import Query, Router, Status

from dashboard.api_base import PROBLEMS
from dashboard.pages import download
from workspaces import history, operations
from workspaces.api import schemas
from workspaces.api.lookup import CONTROLLED, ended_well, find, point_of
from workspaces.services import export

router = Router(tags=["changes"])


@router.get("/workspaces/{key}/diff", response={200: schemas.ChangesOut} | PROBLEMS, tags=["changes"])
def diff(request, key: str, from_: str = Query(..., alias="from"), to: str = Query("live")):
    """Return the changes between two points as JSON, or as a unified diff with Accept: text/x-diff."""
    workspace, points = find(request, key), (point_of(from_), point_of(to))
    if "text/x-diff" in request.headers.get("Accept", ""):
        return _patch_response(workspace, *points)
    return Status(200, {"changes": [change.as_json() for change in history.changes(workspace, *points)]})


@router.get("/workspaces/{key}/patch", response={200: None} | PROBLEMS, tags=["changes"])
def patch(request, key: str, from_: str = Query(..., alias="from"), to: str = Query("live")):
    """Return the changes between two points as a patch for `git apply`."""
    return _patch_response(find(request, key), point_of(from_), point_of(to))


@router.get("/workspaces/{key}/bundle", response={200: None} | PROBLEMS, tags=["changes"])
def bundle(request, key: str):
    """Return a git bundle of the commits in the workspace: HEAD, branches and tags."""
    workspace = find(request, key)
    ended_well(operations.wait(export.bundle(workspace, by=request.auth.actor), 120))
    return download(request, history.read_bundle(workspace), f"{workspace.key}.bundle")


@router.post("/workspaces/{key}/push", response={202: schemas.PushOut | schemas.AskedOut} | PROBLEMS, tags=["changes"])
def push(request, key: str, wish: schemas.NewPush):
    """Push HEAD to a branch of the source repository. For an agent, a person decides first."""
    workspace = find(request, key, "use_workspace")
    operation = operations.wait(export.push(workspace, wish.branch, by=request.auth.actor), 120)
    return Status(202, {"operation": str(operation.pk), "state": operation.phase, "outcome": operation.outcome})


def _patch_response(workspace, from_, to):
    name = f"{workspace.key}-{from_}-{to}.patch"
    body = b"".join(history.patch(workspace, from_, to))
    headers = CONTROLLED | {"Content-Disposition": f'attachment; filename="{name}"'}
    return HttpResponse(body, content_type="text/x-diff", headers=headers)
