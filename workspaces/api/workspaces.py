"""Create, list, operate and delete workspaces."""

import time

from asgiref.sync import sync_to_async
from django.http import HttpResponse
from ninja import Router, Status

from dashboard.api_base import PROBLEMS, AsyncBearer
from dashboard.feed import feed
from dashboard.lookup import page_of
from dashboard.problems import Problem, invalid
from workspaces import lifecycle
from workspaces.api import schemas
from workspaces.api.lookup import MAX_WAIT_S, answered, busy_of, find, safety_known, shown, team_of
from workspaces.models import State, Workspace
from workspaces.provisioning import uploads
from workspaces.services import agent_bindings

router = Router(tags=["workspaces"])


@router.post(
    "/workspaces", response={200: schemas.WorkspaceOut, 201: schemas.WorkspaceOut, 202: schemas.AskedOut} | PROBLEMS
)
def create_workspace(request, wish: schemas.NewWorkspace):
    """Create a workspace, or resume the one that has this key."""
    team = team_of(request)
    if not request.auth.can("create_workspace", team):
        raise Problem(403, "You don't have permission to do this.")
    body = wish.model_dump(exclude_none=True)
    workspace, created = lifecycle.create(team, body.pop("key"), caller=request.auth, wish=body)
    return Status(201 if created else 200, shown(workspace))


@router.post("/uploads", response={201: schemas.UploadOut} | PROBLEMS)
def upload(request):
    """Upload a tar (also .gz or .zst) as the raw body; for an hour it can be the source of a new workspace."""
    team = team_of(request)
    if not request.auth.can("create_workspace", team):
        raise Problem(403, "You don't have permission to do this.")
    made, size = uploads.receive(team.pk, request, by=request.auth.actor)
    return Status(201, {"id": made, "bytes": size})


@router.get("/workspaces", response={200: schemas.WorkspacePage} | PROBLEMS)
def list_workspaces(
    request, state: str | None = None, label: str | None = None, trashed: bool = False, cursor: str | None = None
):
    """List workspaces, newest first, 50 per page."""
    rows = Workspace.objects.visible_to(request.auth)
    rows = rows.in_trash() if trashed else rows.kept()
    if state:
        if state not in State.values:
            raise invalid(f"There is no state {state!r}.")
        rows = rows.filter(state=state)
    if label:
        name, colon, value = label.partition(":")
        if not colon:
            raise invalid("Write a label filter as name:value.")
        rows = rows.filter(label_rows__name=name, label_rows__value=value)
    busy = busy_of(rows.values("pk"))  # before the rows, as in `shown`
    page = page_of(rows.select_related("team", "environment", "head", "baseline"), cursor)
    return Status(
        200,
        {
            "workspaces": [schemas.workspace_out(workspace, busy.get(workspace.pk)) for workspace in page.rows],
            "cursor": page.cursor,
        },
    )


@router.get("/workspaces/{key}", response={200: schemas.WorkspaceOut} | PROBLEMS, auth=AsyncBearer())
async def get_workspace(request, key: str, wait: float = 0):
    """Return a workspace; with `wait` (at most 25 s), once no exclusive operation is open."""
    look = sync_to_async(lambda: shown(find(request, key)))
    answer = await look()
    deadline = time.monotonic() + min(max(wait, 0), MAX_WAIT_S)
    while answer["busy"] and (left := deadline - time.monotonic()) > 0:
        await feed().wait(request.auth.team_ids, timeout=min(left, 1.0))
        answer = await look()
    return Status(200, answer)


def _move(request, key, verb, function):
    workspace = find(request, key, verb)
    function(workspace, by=request.auth.actor)
    return Status(202, shown(workspace))


@router.post("/workspaces/{key}/pause", response={202: schemas.WorkspaceOut | schemas.AskedOut} | PROBLEMS)
def pause(request, key: str):
    """Pause a workspace: files are kept, programs end, any use resumes it."""
    return _move(request, key, "use_workspace", lifecycle.pause)


@router.post("/workspaces/{key}/resume", response={202: schemas.WorkspaceOut | schemas.AskedOut} | PROBLEMS)
def resume(request, key: str):
    """Resume a workspace, and verify that its files are as they were when it was paused or stopped."""
    return _move(request, key, "use_workspace", lifecycle.resume)


@router.post("/workspaces/{key}/stop", response={202: schemas.WorkspaceOut | schemas.AskedOut} | PROBLEMS)
def stop(request, key: str):
    """Stop a workspace: like a pause, but only a resume starts it again."""
    return _move(request, key, "use_workspace", lifecycle.stop)


@router.post("/workspaces/{key}/retry", response={202: schemas.WorkspaceOut | schemas.AskedOut} | PROBLEMS)
def retry(request, key: str):
    """Create a failed workspace again from its source."""
    return _move(request, key, "use_workspace", lifecycle.retry)


@router.post(
    "/workspaces/{key}/reset", response={202: schemas.RestoreOut | schemas.AskedOut} | PROBLEMS, auth=AsyncBearer()
)
async def reset(request, key: str):
    """Restore the snapshot taken after setup; the current files are saved first."""
    operation = await answered(request, _reset, key)
    return operation if isinstance(operation, HttpResponse) else Status(202, await safety_known(operation))


def _reset(request, key):
    return lifecycle.reset(find(request, key, "restore"), by=request.auth.actor)


@router.post("/workspaces/{key}/fork", response={201: schemas.WorkspaceOut} | PROBLEMS)
def fork(request, key: str, wish: schemas.Fork):
    """Create a workspace with the files of a snapshot."""
    workspace = find(request, key)
    if not request.auth.can("create_workspace", workspace.team_id):
        raise Problem(403, "You don't have permission to do this.")
    made = lifecycle.fork(workspace, wish.key, caller=request.auth, number=wish.snapshot)
    return Status(201, shown(made))


@router.delete("/workspaces/{key}", response={202: schemas.WorkspaceOut | schemas.AskedOut} | PROBLEMS)
def delete(request, key: str):
    """Move a workspace to the trash after a last snapshot.

    For an agent, a person decides first: the response names the action.
    """
    workspace = find(request, key, "delete_workspace")
    lifecycle.trash(workspace, by=request.auth.actor)
    return Status(202, shown(workspace))


@router.patch("/workspaces/{key}", response={200: schemas.WorkspaceOut} | PROBLEMS)
def change_workspace(request, key: str, wish: schemas.WorkspaceChange):
    """Set the agents that may work in it besides the one that created it."""
    workspace = find(request, key, "manage_agents")
    agent_bindings.bind(workspace, wish.agents, by=request.auth.actor)
    return Status(200, shown(workspace))


@router.post("/workspaces/{key}/untrash", response={202: schemas.WorkspaceOut} | PROBLEMS)
def untrash(request, key: str):
    """Restore a workspace from the trash; it is stopped then, or failed if it was before."""
    workspace = lifecycle.untrash(find(request, key, "delete_workspace", trashed=True), by=request.auth.actor)
    return Status(202, shown(workspace))
