"""Create, list, operate and delete workspaces."""

import time
from functools import partial

from asgiref.sync import sync_to_async
from django.http import HttpResponse
from ninja import Query, Router, Status

from dashboard.live.feed import feed
from dashboard.models import Team
from dashboard.problems import Problem
from dashboard.web.api_base import PROBLEMS, AsyncBearer
from dashboard.web.lookup import page_of
from workspaces import lifecycle
from workspaces.api import answers, schemas
from workspaces.api.lookup import MAX_WAIT_S, SHOWN_WITH, answered, busy_of, find, safety_known, team_of, workspace_out
from workspaces.models import Workspace
from workspaces.operations import uploads_elsewhere
from workspaces.services import agent_bindings, listing, metadata

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
    return Status(201 if created else 200, workspace_out(workspace))


@router.post("/uploads", response={201: schemas.UploadOut} | PROBLEMS)
def upload(request):
    """Upload a tar (also .gz or .zst) as the raw body, as the source of a new workspace; retention deletes it."""
    team = team_of(request)
    if not request.auth.can("create_workspace", team):
        raise Problem(403, "You don't have permission to do this.")
    made, size = uploads_elsewhere.receive(team.pk, request, by=request.auth.actor)
    return Status(201, {"id": made, "bytes": size})


@router.get("/workspaces", response={200: schemas.WorkspacePage} | PROBLEMS)
def list_workspaces(request, wanted: Query[schemas.WorkspaceFilters], trashed: bool = False, cursor: str | None = None):
    """List workspaces, 50 per page; `sort` is activity, quiet, size or name, without it the newest come first."""
    rows = Workspace.objects.visible_to(request.auth)
    rows = rows.in_trash() if trashed else rows.kept()
    filters = wanted.as_filters()
    busy = busy_of(rows.values("pk"))  # before the rows, as in `shown`
    page = page_of(listing.chosen(rows, filters).select_related(*SHOWN_WITH), cursor, order=filters.order)
    return Status(
        200,
        {
            "workspaces": [answers.workspace_out(workspace, busy.get(workspace.pk)) for workspace in page.rows],
            "cursor": page.cursor,
        },
    )


@router.get("/workspaces/{key}", response={200: schemas.WorkspaceOut} | PROBLEMS, auth=AsyncBearer())
async def get_workspace(request, key: str, wait: float = 0):
    """Return a workspace; with `wait` (at most 25 s), once no exclusive operation is open."""
    look = sync_to_async(lambda: workspace_out(find(request, key)))
    answer = await look()
    deadline = time.monotonic() + min(max(wait, 0), MAX_WAIT_S)
    while answer["busy"] and (left := deadline - time.monotonic()) > 0:
        await feed().wait(request.auth.team_ids, timeout=min(left, 1.0))
        answer = await look()
    return Status(200, answer)


def _move(request, key, verb, function):
    workspace = find(request, key, verb)
    function(workspace, by=request.auth.actor)
    return Status(202, workspace_out(workspace))


@router.post("/workspaces/{key}/pause", response={202: schemas.WorkspaceOut | schemas.AskedOut} | PROBLEMS)
def pause(request, key: str, memory: bool = True):
    """Pause a workspace: files are kept, and any use resumes it.

    In a microVM programs continue at the resume; with `memory=false`, and with every other driver, they end.
    """
    return _move(request, key, "use_workspace", partial(lifecycle.pause, memory=memory))


@router.post("/workspaces/{key}/resume", response={202: schemas.WorkspaceOut | schemas.AskedOut} | PROBLEMS)
def resume(request, key: str, wish: schemas.Resume = None):
    """Resume a workspace, and verify that its files are as they were when it was paused or stopped.

    Programs of a sandbox can read `snapshots` at /snapshots/NUMBER until it is paused or stopped, without secrets.
    """
    snapshots = wish.snapshots if wish else []
    return _move(request, key, "use_workspace", partial(lifecycle.resume, snapshots=snapshots))


@router.post("/workspaces/{key}/stop", response={202: schemas.WorkspaceOut | schemas.AskedOut} | PROBLEMS)
def stop(request, key: str):
    """Stop a workspace: like a pause, but only a resume starts it again."""
    return _move(request, key, "use_workspace", lifecycle.stop)


@router.post("/workspaces/{key}/archive", response={202: schemas.WorkspaceOut} | PROBLEMS)
def archive(request, key: str):
    """Archive a workspace: its files leave the host once its newest snapshot was verified; a resume brings them back.

    Its programs end. The agent's home and the memory of a paused microVM are removed for good.
    """
    return _move(request, key, "use_workspace", lifecycle.archive)


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
    """Create a workspace with the files of a snapshot, on request under another environment.

    The setup of the other one runs on the files. Without `snapshot`, one is taken first of a workspace that is up.
    """
    workspace = find(request, key)
    if not request.auth.can("create_workspace", workspace.team_id):
        raise Problem(403, "You don't have permission to do this.")
    wanted = {"number": wish.snapshot, "environment": wish.environment}
    made = lifecycle.fork(workspace, wish.key, caller=request.auth, **wanted)
    return Status(201, workspace_out(made))


@router.delete("/workspaces/{key}", response={202: schemas.WorkspaceOut | schemas.AskedOut} | PROBLEMS)
def delete(request, key: str):
    """Move a workspace to the trash after a last snapshot.

    For an agent, a person decides first: the response names the action.
    """
    workspace = find(request, key, "delete_workspace")
    lifecycle.trash(workspace, by=request.auth.actor)
    return Status(202, workspace_out(workspace))


@router.patch("/workspaces/{key}", response={200: schemas.WorkspaceOut} | PROBLEMS)
def change_workspace(request, key: str, wish: schemas.WorkspaceChange):
    """Set its description, labels, owner or ticket, or the agents that may work in it besides its creator.

    All of it or nothing. Agents describe their own workspaces; only people set the owner and the agents.
    """
    workspace = find(request, key, "describe_workspace")
    told = wish.model_dump(exclude_unset=True)
    for name, verb in (("agents", "manage_agents"), ("owner", "assign_owner")):
        if name in told:
            lifecycle.require_permission(request.auth, verb, workspace)
    agents = told.pop("agents", None)
    with Team.objects.turn(workspace.team_id):
        if agents is not None:
            agent_bindings.bind(workspace, agents, by=request.auth.actor)
        metadata.change(workspace, told, by=request.auth.actor)
    return Status(200, workspace_out(workspace))


@router.post("/workspaces/{key}/untrash", response={202: schemas.WorkspaceOut} | PROBLEMS)
def untrash(request, key: str):
    """Restore a workspace from the trash; it is stopped then, or failed if it was before."""
    workspace = lifecycle.untrash(find(request, key, "delete_workspace", trashed=True), by=request.auth.actor)
    return Status(202, workspace_out(workspace))
