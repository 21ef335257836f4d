"""Commands and terminals."""

import time
from uuid import UUID

from asgiref.sync import sync_to_async
from django.http import StreamingHttpResponse
from ninja import Header, Query, Router, Status

from dashboard.contract import PROBLEMS, AsyncBearer
from dashboard.live import feed
from dashboard.problems import Problem, not_found
from workspaces import effects, lifecycle, programs, schemas
from workspaces.api.finding import CONTROLLED, LONGEST_WAIT, asked, find, page_of
from workspaces.models import Command, Workspace
from workspaces.runner import client

router = Router(tags=["commands"])


@router.post(
    "/workspaces/{key}/commands",
    response={201: schemas.CommandOut, 202: schemas.AskedOut} | PROBLEMS,
    tags=["commands"],
)
def run_command(
    request,
    key: str,
    wish: schemas.NewCommand,
    idempotency_key: str | None = Header(None, alias="Idempotency-Key", max_length=200),
):
    """Run a program; the same Idempotency-Key again answers with the same command."""
    workspace, body = find(request, key, "use_workspace"), wish.model_dump(exclude_none=True)
    if waiting := asked(request, workspace, "command", body):
        return Status(202, waiting)
    command = programs.run_command(workspace, body, by=request.auth.actor, idempotency_key=idempotency_key)
    return Status(201, schemas.command_out(command))


def _command(request, id: str) -> Command:
    try:
        pk = UUID(id)
    except ValueError:
        raise not_found("command") from None
    visible = Workspace.objects.visible_to(request.auth)
    command = Command.objects.select_related("effect", "workspace", "workspace__team").filter(
        pk=pk, workspace__in=visible
    )
    if (found := command.first()) is None:
        raise not_found("command")
    return found


@router.get("/workspaces/{key}/commands", response={200: dict} | PROBLEMS, tags=["commands"])
def list_commands(request, key: str, cursor: str | None = None):
    """Newest first, 50 a page."""
    page, following = page_of(find(request, key).commands.select_related("effect"), cursor)
    return Status(
        200,
        {
            "commands": [schemas.CommandOut(**schemas.command_out(c)).model_dump(mode="json") for c in page],
            "cursor": following,
        },
    )


@router.get("/commands/{id}", response={200: schemas.CommandOut} | PROBLEMS, auth=AsyncBearer(), tags=["commands"])
async def get_command(request, id: str, wait: float = 0):
    """As it is; `wait` (at most 25 s) until it is over."""
    command = await sync_to_async(_command)(request, id)
    deadline = time.monotonic() + min(max(wait, 0), LONGEST_WAIT)
    while not effects.is_over(command.effect) and (left := deadline - time.monotonic()) > 0:
        await feed().wait(request.auth.team_ids, subject=str(command.pk), timeout=min(left, 2.0))
        command = await sync_to_async(_command)(request, id)
    return Status(200, schemas.command_out(command))


@router.get("/commands/{id}/output", response={200: None} | PROBLEMS, auth=AsyncBearer(), tags=["commands"])
async def command_output(request, id: str, offset: int = Query(0, ge=0, le=2**53), follow: bool = False):
    """Raw bytes from an offset; with follow=1 streamed until it ends."""
    command = await sync_to_async(_command)(request, id)
    if command.swept_at:
        raise Problem(404, f"Its output was kept until {command.swept_at:%-d %b %Y}.")
    return await stream_output(command.workspace_id, command.effect_id, offset, follow)


async def stream_output(workspace_id, program_id, offset: int, follow: bool) -> StreamingHttpResponse:
    path = f"/workspaces/{workspace_id}/programs/{program_id}/output"
    chunks = client.stream(path, offset=offset, follow=int(follow))
    await anext(chunks)  # problems come before the first byte
    return StreamingHttpResponse(chunks, content_type="application/octet-stream", headers=CONTROLLED)


@router.post("/commands/{id}/cancel", response={202: schemas.CommandOut} | PROBLEMS, tags=["commands"])
def cancel_command(request, id: str):
    """Ask it to end; one that is over stays as it is."""
    command = _command(request, id)
    lifecycle.may(request.auth, "use_workspace", command.workspace)
    return Status(202, schemas.command_out(programs.cancel_command(command, by=request.auth.actor)))


@router.post("/workspaces/{key}/terminals", response={201: schemas.TerminalOut} | PROBLEMS, tags=["terminals"])
def open_terminal(request, key: str, wish: schemas.NewTerminal = None):
    """Open a pty; its bytes are at the WebSocket /ws/terminals/{id}?offset=N."""
    workspace = find(request, key, "type_in_terminal")
    terminal = programs.open_terminal(
        workspace, wish.model_dump(exclude_none=True) if wish else {}, by=request.auth.actor
    )
    return Status(201, schemas.terminal_out(terminal))


@router.get("/workspaces/{key}/terminals", response={200: dict} | PROBLEMS, tags=["terminals"])
def list_terminals(request, key: str, cursor: str | None = None):
    """Newest first, 50 a page."""
    page, following = page_of(find(request, key).terminals.select_related("effect"), cursor)
    rows = [schemas.TerminalOut(**schemas.terminal_out(t)).model_dump(mode="json") for t in page]
    return Status(200, {"terminals": rows, "cursor": following})
