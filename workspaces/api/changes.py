"""What changed, and how work gets out."""

from django.http import HttpResponse
from ninja import Query, Router, Status

from dashboard.contract import PROBLEMS
from dashboard.pages import download
from workspaces import effects, history, leaving, schemas
from workspaces.api.finding import CONTROLLED, asked, ended_well, find, point_of

router = Router(tags=["changes"])


@router.get("/workspaces/{key}/diff", response={200: schemas.ChangesOut} | PROBLEMS, tags=["changes"])
def diff(request, key: str, from_: str = Query(..., alias="from"), to: str = Query("live")):
    """What changed between two points, as JSON; a unified diff with Accept: text/x-diff."""
    workspace, points = find(request, key), (point_of(from_), point_of(to))
    if "text/x-diff" in request.headers.get("Accept", ""):
        return _patch_response(workspace, *points)
    return Status(200, {"changes": [change.as_json() for change in history.changes(workspace, *points)]})


@router.get("/workspaces/{key}/patch", response={200: None} | PROBLEMS, tags=["changes"])
def patch(request, key: str, from_: str = Query(..., alias="from"), to: str = Query("live")):
    """A patch that `git apply` takes."""
    return _patch_response(find(request, key), point_of(from_), point_of(to))


@router.get("/workspaces/{key}/bundle", response={200: None} | PROBLEMS, tags=["changes"])
def bundle(request, key: str):
    """A git bundle of what is committed in the workspace: HEAD, branches and tags."""
    workspace = find(request, key)
    ended_well(effects.wait(leaving.bundle(workspace, by=request.auth.actor), 120))
    return download(request, history.read_bundle(workspace), f"{workspace.key}.bundle")


@router.post("/workspaces/{key}/push", response={202: schemas.PushOut | schemas.AskedOut} | PROBLEMS, tags=["changes"])
def push(request, key: str, wish: schemas.NewPush):
    """Push HEAD to a branch of the repository it came from. For an agent a person decides first."""
    workspace = find(request, key, "use_workspace")
    leaving.check_push(workspace, wish.branch)
    if waiting := asked(request, workspace, "push", {"branch": wish.branch}):
        return Status(202, waiting)
    effect = effects.wait(leaving.push(workspace, wish.branch, by=request.auth.actor), 120)
    return Status(202, {"effect": str(effect.pk), "state": effect.phase, "outcome": effect.outcome})


def _patch_response(workspace, from_, to):
    name = f"{workspace.key}-{from_}-{to}.patch"
    body = b"".join(history.patch(workspace, from_, to))
    headers = CONTROLLED | {"Content-Disposition": f'attachment; filename="{name}"'}
    return HttpResponse(body, content_type="text/x-diff", headers=headers)
