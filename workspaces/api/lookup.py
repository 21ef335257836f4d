"""Shared by the API's endpoints: lookup within what the caller may see, waiting, requests for approval."""

from functools import cache
from urllib.parse import unquote_to_bytes

from asgiref.sync import sync_to_async
from django.db.models import CharField
from django.http import HttpResponse, JsonResponse

from dashboard.database import clock
from dashboard.database.prepared import Prepared, Slot
from dashboard.models import Team
from dashboard.people.access import CallerSlots
from dashboard.problems import Problem, conflict, invalid, not_allowed, unavailable
from workspaces import extensions, lifecycle, operations
from workspaces.api import answers, schemas
from workspaces.changes import history
from workspaces.host import place
from workspaces.lifecycle import activity, agents_at_work
from workspaces.models import Command, Operation, ReasonCode, Terminal, Workspace
from workspaces.operations import absent
from workspaces.operations.needs_approval import AskFirst
from workspaces.services import agent_bindings

MAX_WAIT_S = 25.0
SHOWN_WITH = (
    "team",
    "environment",
    "head",
    "baseline",
    "owner",
    "forked_from",
    "runner",
)  # rows that answers.workspace_out reads
CONTROLLED = {"Content-Security-Policy": "sandbox; default-src 'none'", "X-Content-Type-Options": "nosniff"}


def find(request, key: str, verb: str = "read", *, trashed=False) -> Workspace:
    """Return the workspace with this key. Any verb but "read" counts as activity.

    Problem 404 if it is in the trash or the caller may not see it, 410 if it was purged, each with its `code`, 403 if
    the caller may not do the verb, 409 while another agent is at work where only one at a time may.
    """
    slots, values = CallerSlots.of(request.auth), CallerSlots.values(request.auth)
    workspace = next(iter(_named(slots, trashed).rows(key=key, **values)), None)
    if workspace is None:
        named = Workspace.objects.visible_to(request.auth).filter(key=key)
        if trashed and (kept := named.kept().first()):
            lifecycle.require_permission(request.auth, verb, kept)
            raise conflict(f"{key} is not in the trash.", code="workspace_not_in_trash")
        raise absent.refusal_of_key(named)
    lifecycle.require_permission(request.auth, verb, workspace)
    if verb != "read":
        agents_at_work.enter(workspace, request.auth)
        activity.touch(workspace)
    return workspace


@cache
def _named(slots: CallerSlots, trashed: bool) -> Prepared:
    """Return the query of the workspace with a key, for all callers who differ in values alone."""
    named = Workspace.objects.visible_to(slots.caller()).filter(key=Slot("key", CharField()))
    rows = named.in_trash().order_by("-trashed_at") if trashed else named.kept().order_by("pk")
    related = rows.select_related("team", "environment", "head", "baseline", "runner")
    return Prepared(lambda: related[:1], slots.marks)


def busy_of(workspaces) -> dict:
    """Return {workspace id: kind of its open exclusive operation}."""
    rows = Operation.objects.open().filter(workspace__in=workspaces, exclusive=True).order_by("-due_at")
    return dict(rows.values_list("workspace_id", "kind"))


def workspace_out(workspace) -> dict:
    """Return a workspace, reloaded, in the shape of schemas.WorkspaceOut."""
    # Read busy before the row: if the operation ends in between, the row has the state after it.
    busy = busy_of([workspace.pk]).get(workspace.pk)
    fresh = Workspace.objects.select_related(*SHOWN_WITH).get(pk=workspace.pk)
    run = fresh.runs.order_by("-started_at").first()
    working = [agent.name for agent in agents_at_work.at_work(fresh, clock.now())]
    return answers.workspace_out(fresh, busy, run, agent_bindings.bound(fresh)) | {"agents_at_work": working}


def team_of(request):
    return Team.objects.get(pk=request.auth.team_ids[0])


def team_for(request, verb: str) -> Team:
    """Return the caller's team. Problem 403 for agents and without the right."""
    team = team_of(request)
    if not request.auth.is_person or not request.auth.can(verb, team):
        raise not_allowed("You don't have permission to do this.")
    return team


def path_after(request, prefix: str, path: str) -> bytes:
    """Return the path in the URL after `prefix` as bytes; Django would replace percent-encoded bytes not in UTF-8."""
    raw = request.scope.get("raw_path") if hasattr(request, "scope") else None
    if raw and prefix.encode() in raw:
        return unquote_to_bytes(raw.split(b"?")[0].split(prefix.encode(), 1)[1])
    return path.encode("utf-8", "surrogateescape")


def number_of(text: str) -> int | None:
    return int(text) if text.isdecimal() and len(text) < 10 else None


def point_of(text: str):
    """Parse a point: a snapshot number or "live". Problem 422 for anything else."""
    if text == history.LIVE:
        return text
    if (number := number_of(text)) is None:
        raise invalid("Give a snapshot number, or live.")
    return number


def ask_first(request, wanted: AskFirst) -> HttpResponse:
    """Request a person's approval; respond with 202 and the action, or 201 and what the approved action created.

    dashboard.api calls this wherever AskFirst is raised; only async endpoints have to call it themselves.
    """
    told = extensions.ports.ask_a_person(request.auth, wanted, request.headers.get("Idempotency-Key"))
    made = told.pop("made", None)
    if isinstance(made, Command):
        return JsonResponse(schemas.CommandOut(**answers.command_out(made)).model_dump(mode="json") | told, status=201)
    if isinstance(made, Terminal):
        return JsonResponse(
            schemas.TerminalOut(**answers.terminal_out(made)).model_dump(mode="json") | told, status=201
        )
    return JsonResponse(told, status=202)


async def answered(request, function, *args):
    """Run `function(request, *args)` off the event loop, for async endpoints; AskFirst asks for approval."""

    def call():
        try:
            return function(request, *args)
        except AskFirst as wanted:
            return ask_first(request, wanted)

    return await sync_to_async(call)()


def ended_well(operation) -> dict:
    """Return the operation's outcome. Problem 503 if it is not over yet, 409 if it failed."""
    if not operations.is_over(operation):
        words = place.waits_for(operation) or "The runner hasn't got to it yet. Check again later."
        raise unavailable(words, operation=str(operation.pk))
    if not operation.outcome["ok"]:
        raise Problem(409, operation.outcome["reason"])
    return operation.outcome


async def safety_known(operation) -> dict:
    """Wait at most 60 s for a restore's safety snapshot; return schemas.RestoreOut.

    Problem 409 if the workspace's state does not allow it, 503 if it failed.
    """

    def known(e):
        return operations.is_over(e) or "safety_snapshot" in e.progress

    operation = await operations.wait_async(operation, 60, until=known)
    if operations.is_over(operation) and not operation.outcome["ok"]:
        status = 409 if operation.outcome.get("reason_code") == ReasonCode.STATE else 503
        raise Problem(status, operation.outcome["reason"])
    return answers.restore_out(operation)


def operation_out(operation) -> dict:
    """Return an operation in the shape of schemas.OperationOut."""
    over = operations.is_over(operation)
    return {
        "id": str(operation.pk),
        "kind": operation.kind,
        "phase": operation.phase,
        "progress": operation.progress,
        "can_be_stopped": not over
        and operation.cancelled_at is None
        and bool(lifecycle.permission_to_cancel(operation)),
        "asked_to_stop": operation.cancelled_at is not None,
        "outcome": operation.outcome,
        "waits_for": place.waits_for(operation),
        "created_at": operation.created_at,
    }
