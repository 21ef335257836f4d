"""Workspaces: make, list, move, delete."""

import time

from asgiref.sync import sync_to_async
from ninja import Router, Status

from dashboard.contract import PROBLEMS, AsyncBearer
from dashboard.live import feed
from dashboard.problems import Problem, invalid
from workspaces import lifecycle, schemas, uploads
from workspaces.api.finding import LONGEST_WAIT, asked, busy_of, find, page_of, safety_known, shown, team_of
from workspaces.models import State, Workspace

router = Router(tags=["workspaces"])


@router.post("/workspaces", response={200: schemas.WorkspaceOut, 201: schemas.WorkspaceOut} | PROBLEMS)
def create_workspace(request, wish: schemas.NewWorkspace):
    """Make a workspace, or resume the one that has this key."""
    team = team_of(request)
    if not request.auth.can("create_workspace", team):
        raise Problem(403, "Your role does not allow that here.")
    body = wish.model_dump(exclude_none=True)
    workspace, created = lifecycle.create(team, body.pop("key"), caller=request.auth, wish=body)
    return Status(201 if created else 200, shown(workspace))


@router.post("/uploads", response={201: schemas.UploadOut} | PROBLEMS)
def upload(request):
    """A tar (also .gz, .zst) as the raw body, good for an hour as the source of a new workspace."""
    team = team_of(request)
    if not request.auth.can("create_workspace", team):
        raise Problem(403, "Your role does not allow that here.")
    made, size = uploads.receive(team.pk, request)
    return Status(201, {"id": made, "bytes": size})


@router.get("/workspaces", response={200: schemas.WorkspacePage} | PROBLEMS)
def list_workspaces(
    request, state: str | None = None, label: str | None = None, trashed: bool = False, cursor: str | None = None
):
    """Newest first, 50 a page."""
    rows = Workspace.objects.visible_to(request.auth)
    rows = rows.in_trash() if trashed else rows.kept()
    if state:
        if state not in State.values:
            raise invalid(f"There is no state {state!r}.")
        rows = rows.filter(state=state)
    if label:
        name, colon, value = label.partition(":")
        if not colon:
            raise invalid("A label filter is name:value.")
        rows = rows.filter(label_rows__name=name, label_rows__value=value)
    busy = busy_of(rows.values("pk"))  # before the rows, as in `shown`
    page, following = page_of(rows.select_related("team", "environment", "head", "baseline"), cursor)
    return Status(
        200,
        {
            "workspaces": [schemas.workspace_out(workspace, busy.get(workspace.pk)) for workspace in page],
            "cursor": following,
        },
    )


@router.get("/workspaces/{key}", response={200: schemas.WorkspaceOut} | PROBLEMS, auth=AsyncBearer())
async def get_workspace(request, key: str, wait: float = 0):
    """As it is; `wait` (at most 25 s) until nothing is in flight."""
    look = sync_to_async(lambda: shown(find(request, key)))
    answer = await look()
    deadline = time.monotonic() + min(max(wait, 0), LONGEST_WAIT)
    while answer["busy"] and (left := deadline - time.monotonic()) > 0:
        await feed().wait(request.auth.team_ids, timeout=min(left, 1.0))
        answer = await look()
    return Status(200, answer)


def _move(request, key, verb, function):
    workspace = find(request, key, verb)
    function(workspace, by=request.auth.actor)
    return Status(202, shown(workspace))


@router.post("/workspaces/{key}/pause", response={202: schemas.WorkspaceOut} | PROBLEMS)
def pause(request, key: str):
    """Files are kept, programs end; use wakes it."""
    return _move(request, key, "use_workspace", lifecycle.pause)


@router.post("/workspaces/{key}/resume", response={202: schemas.WorkspaceOut} | PROBLEMS)
def resume(request, key: str):
    """Bring it up, with the proof that its files are those that went to sleep."""
    return _move(request, key, "use_workspace", lifecycle.resume)


@router.post("/workspaces/{key}/stop", response={202: schemas.WorkspaceOut} | PROBLEMS)
def stop(request, key: str):
    """Like pause, but only a request wakes it."""
    return _move(request, key, "use_workspace", lifecycle.stop)


@router.post("/workspaces/{key}/retry", response={202: schemas.WorkspaceOut} | PROBLEMS)
def retry(request, key: str):
    """Make a broken one again from its source."""
    return _move(request, key, "use_workspace", lifecycle.retry)


@router.post(
    "/workspaces/{key}/reset", response={202: schemas.RestoreOut | schemas.AskedOut} | PROBLEMS, auth=AsyncBearer()
)
async def reset(request, key: str):
    """Back to the snapshot after set-up; what is there now is saved first."""
    effect, waiting = await sync_to_async(_reset)(request, key)
    return Status(202, waiting or await safety_known(effect))


def _reset(request, key):
    workspace = find(request, key, "restore")
    if waiting := asked(request, workspace, "reset", {}):
        return None, waiting
    return lifecycle.reset(workspace, by=request.auth.actor), None


@router.post("/workspaces/{key}/fork", response={201: schemas.WorkspaceOut} | PROBLEMS)
def fork(request, key: str, wish: schemas.Fork):
    """A new workspace with the files of a snapshot."""
    workspace = find(request, key)
    if not request.auth.can("create_workspace", workspace.team_id):
        raise Problem(403, "Your role does not allow that here.")
    made = lifecycle.fork(workspace, wish.key, caller=request.auth, number=wish.snapshot)
    return Status(201, shown(made))


@router.delete("/workspaces/{key}", response={202: schemas.WorkspaceOut | schemas.AskedOut} | PROBLEMS)
def delete(request, key: str):
    """Into the trash, with a last snapshot. For an agent a person decides first: the answer names the action."""
    workspace = find(request, key, "delete_workspace")
    if waiting := asked(request, workspace, "delete", {}):
        return Status(202, waiting)
    lifecycle.trash(workspace, by=request.auth.actor)
    return Status(202, shown(workspace))


@router.post("/workspaces/{key}/untrash", response={202: schemas.WorkspaceOut} | PROBLEMS)
def untrash(request, key: str):
    """Back out of the trash, stopped."""
    workspace = lifecycle.untrash(find(request, key, "delete_workspace", trashed=True), by=request.auth.actor)
    return Status(202, shown(workspace))
