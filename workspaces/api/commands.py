"""Commands and terminals of workspaces."""

from functools import cache, partial

from django.db.models import UUIDField
from django.http import StreamingHttpResponse
from ninja import Header, Query, Router, Status

from dashboard.database import clock
from dashboard.database.prepared import Prepared, Slot
from dashboard.database.threads import query_in_thread
from dashboard.live.long_poll import wait_for
from dashboard.people.access import CallerSlots
from dashboard.problems import Problem
from dashboard.web import lookup
from dashboard.web.api_base import PROBLEMS, AsyncBearer
from dashboard.web.lookup import page_of
from workspaces import lifecycle, operations
from workspaces.api import answers, schemas
from workspaces.api.lookup import CONTROLLED, MAX_WAIT_S, find
from workspaces.models import Command, Workspace
from workspaces.programs import recordings
from workspaces.services import commands

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
    """Run a program. A request with the same Idempotency-Key returns the same command."""
    workspace, body = find(request, key, "use_workspace"), wish.model_dump(exclude_none=True)
    command = commands.run_command(workspace, body, by=request.auth.actor, idempotency_key=idempotency_key)
    return Status(201, answers.command_out(command))


def find_command(request, id: str) -> Command:
    """Return a command of a workspace that the caller sees, with what reading its output takes. Problem 404."""
    prepared = _visible(CallerSlots.of(request.auth))
    return lookup.find_prepared(prepared, id, "command", **CallerSlots.values(request.auth))


@cache
def _visible(slots: CallerSlots) -> Prepared:
    """Return the query of a command, for all callers who differ in values alone."""
    rows = Command.objects.select_related("operation", "workspace__team", "workspace__runner")
    visible = rows.filter(workspace__in=Workspace.objects.visible_to(slots.caller()))
    return Prepared(lambda: visible.filter(pk=Slot("pk", UUIDField())), slots.marks)


@router.get("/workspaces/{key}/commands", response={200: dict} | PROBLEMS, tags=["commands"])
def list_commands(request, key: str, cursor: str | None = None):
    """List commands, newest first, 50 per page."""
    page = page_of(find(request, key).commands.select_related("operation"), cursor)
    return Status(
        200,
        {
            "commands": [schemas.CommandOut(**answers.command_out(c)).model_dump(mode="json") for c in page.rows],
            "cursor": page.cursor,
        },
    )


@router.get("/commands/{id}", response={200: schemas.CommandOut} | PROBLEMS, auth=AsyncBearer(), tags=["commands"])
async def get_command(request, id: str, wait: float = 0):
    """Return a command; with `wait` (at most 25 s), once it is over."""
    command = await wait_for(
        partial(find_command, request, id),
        lambda command: operations.is_over(command.operation),
        team_ids=request.auth.team_ids,
        subject=id.lower(),
        timeout=min(wait, MAX_WAIT_S),
    )
    return Status(200, await query_in_thread(answers.command_out, command))


@router.get("/commands/{id}/output", response={200: None} | PROBLEMS, auth=AsyncBearer(), tags=["commands"])
async def command_output(request, id: str, offset: int = Query(0, ge=0, le=2**53), follow: bool = False):
    """Return the raw output from an offset; with follow=1, stream it until the command ends."""
    command = await query_in_thread(find_command, request, id)
    if command.swept_at:
        raise Problem(404, f"Its output was kept until {clock.in_utc(command.swept_at)}.")
    chunks = recordings.followed(command, offset) if follow else await recordings.recorded(command, offset)
    return StreamingHttpResponse(chunks, content_type="application/octet-stream", headers=CONTROLLED)


@router.post(
    "/commands/{id}/cancel", response={202: schemas.CommandOut | schemas.AskedOut} | PROBLEMS, tags=["commands"]
)
def cancel_command(request, id: str):
    """Ask a command to end; one that is over is returned unchanged."""
    command = find_command(request, id)
    lifecycle.require_permission(request.auth, "use_workspace", command.workspace)
    return Status(202, answers.command_out(commands.cancel_command(command, by=request.auth.actor)))


@router.post(
    "/workspaces/{key}/terminals",
    response={201: schemas.TerminalOut, 202: schemas.AskedOut} | PROBLEMS,
    tags=["terminals"],
)
def open_terminal(request, key: str, wish: schemas.NewTerminal = None):
    """Open a pty; its bytes are at the WebSocket /ws/terminals/{id}?offset=N."""
    workspace = find(request, key, "type_in_terminal")
    terminal = commands.open_terminal(
        workspace, wish.model_dump(exclude_none=True) if wish else {}, by=request.auth.actor
    )
    return Status(201, answers.terminal_out(terminal))


@router.get("/workspaces/{key}/terminals", response={200: dict} | PROBLEMS, tags=["terminals"])
def list_terminals(request, key: str, cursor: str | None = None):
    """List terminals, newest first, 50 per page. An agent sees those of agents and those that people shared."""
    readable = find(request, key).terminals.readable_by(request.auth.actor)
    page = page_of(readable.select_related("operation"), cursor)
    rows = [schemas.TerminalOut(**answers.terminal_out(t)).model_dump(mode="json") for t in page.rows]
    return Status(200, {"terminals": rows, "cursor": page.cursor})


@router.put(
    "/workspaces/{key}/terminals/{id}/share", response={200: schemas.TerminalOut} | PROBLEMS, tags=["terminals"]
)
def share_terminal(request, key: str, id: str, wish: schemas.SharedTerminal):
    """Let agents read a person's terminal, live and its recording, or no longer. For people only."""
    workspace = find(request, key, "share_terminal")
    found = lookup.find(workspace.terminals.select_related("operation", "workspace"), id, "terminal")
    commands.share_terminal(found, wish.shared, by=request.auth.actor)
    return Status(200, answers.terminal_out(found))
