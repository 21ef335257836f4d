"""E2B's REST API: make, find, pause, resume and end sandboxes, which are workspaces."""

import hashlib
import secrets
from contextlib import suppress
from datetime import timedelta
from functools import partial
from urllib.parse import parse_qsl

from django.http import HttpResponse

from approvals.protocols.e2b import wire
from approvals.protocols.e2b.answering import GONE, body_of, in_thread, rest
from dashboard.database import clock
from dashboard.live.long_poll import wait_for
from dashboard.people.tokens import sha256
from dashboard.problems import Problem, invalid, not_found
from dashboard.web.lookup import page_of
from workspaces import lifecycle
from workspaces.api import controls, lookup, schemas
from workspaces.api import workspaces as api
from workspaces.lifecycle.activity import idle_after
from workspaces.models import State, Workspace
from workspaces.operations.needs_approval import AskFirst
from workspaces.provisioning import limits
from workspaces.services.idle import MAX_KEEP_AWAKE

ENVD_VERSION = "0.5.7"  # whose calls are taken; of newer ones the SDKs then say that a sandbox does not have them
ANY = "base"  # the template that the SDKs name unless told otherwise: the team's own default
TIMEOUT_S = 300  # a sandbox's time-out where the SDK names none
SETTLE_S = 50.0  # for which an answer waits until the sandbox is up: the SDKs' calls end after 60
MOST_LISTED = 100
MIB = 1024 * 1024
# What a new sandbox may not want: {field of the request: why not}.
NOT_TAKEN = {
    "envVars": "Set variables in the environment, or give `envs` with each command.",
    "network": "What a sandbox reaches is in the environment's list of hosts.",
    "volumeMounts": "Sandboxes have no volumes here.",
    "mcp": "Sandboxes have no MCP gateway here.",
    "iam": "Sandboxes have no workload identity here.",
}


@rest("GET", "POST")
async def collection(request):
    """Create a sandbox, or list those that the caller may see."""
    if request.method == "GET":
        return await in_thread(_list, request)
    wish = wire.object_in(body_of(request))
    workspace = await in_thread(_create, request, wish)
    await _settled(request, workspace.key)
    return 201, await in_thread(_kept_awake, request, workspace.key, wish)


@rest("GET", "DELETE")
async def one(request, key):
    """Return a sandbox, or end it: its programs end, and its files stay as long as retention keeps them."""
    if request.method == "GET":
        return 200, await in_thread(lambda: _detail(_find(request, key)))
    await in_thread(lambda: lifecycle.stop(_find(request, key, "use_workspace"), by=request.auth.actor))
    await _settled(request, key)
    return 204, None


@rest("POST")
async def pause(request, key):
    """Pause a sandbox; 409 if it is paused already."""
    memory = wire.object_in(body_of(request)).get("memory", True) is not False

    def end():
        workspace = _find(request, key, "use_workspace")
        if workspace.state == State.PAUSED:
            raise Problem(409, f"{key} is paused already.")
        lifecycle.pause(workspace, by=request.auth.actor, memory=memory)

    await in_thread(end)
    await _settled(request, key)
    return 204, None


@rest("POST")
async def connect(request, key):
    """Return a sandbox once it is up; a paused one is resumed."""
    wish = wire.object_in(body_of(request))
    is_up = await in_thread(_resume, request, key)
    await _settled(request, key)
    return 200 if is_up else 201, await in_thread(_kept_awake, request, key, wish)


@rest("POST")
async def timeout(request, key):
    """Keep a sandbox up for so many seconds from now."""
    wish = wire.object_in(body_of(request))
    await in_thread(_kept_awake, request, key, wish)
    return 204, None


def _create(request, wish: dict) -> Workspace:
    for name, why in NOT_TAKEN.items():
        if wish.get(name):
            raise invalid(f"{name}: {why}", code="not_taken")
    if wish.get("allow_internet_access") is False:
        raise invalid(f"allow_internet_access: {NOT_TAKEN['network']}")
    template = wish.get("templateID") or ANY
    if not isinstance(template, str):
        raise invalid("templateID is a text.")
    named = {} if template == ANY else {"environment": template}
    wanted = schemas.NewWorkspace(key=_new_key(request), labels=wire.part(wish, "metadata"), **named)
    api.create_workspace(request, wanted)
    return _find(request, wanted.key)


def _new_key(request) -> str:
    """Return the key of a new sandbox; the same one for a request with the same Idempotency-Key."""
    if again := request.headers.get("Idempotency-Key"):
        return "e2b-" + hashlib.sha256(f"{sha256(wire.token_in(request.headers))} {again}".encode()).hexdigest()[:16]
    return "e2b-" + secrets.token_hex(8)


def _resume(request, key: str) -> bool:
    """Resume a paused sandbox; return whether it was up."""
    workspace = _find(request, key, "use_workspace")
    if workspace.state != State.PAUSED:
        return True
    lifecycle.resume(workspace, by=request.auth.actor)
    return False


def _kept_awake(request, key: str, wish: dict) -> dict:
    """Keep a sandbox awake as long as its client asks; return it as the SDKs' answer to create and connect."""
    seconds = wish.get("timeout", TIMEOUT_S)
    if type(seconds) is not int or seconds < 0:
        raise invalid("timeout is a whole number of seconds.")
    workspace = _find(request, key, "use_workspace")
    if workspace.state in (State.READY, State.PAUSED):
        most = int(MAX_KEEP_AWAKE.total_seconds())
        until = clock.now() + timedelta(seconds=min(seconds, most)) if seconds else None
        with suppress(AskFirst):  # a connected folder is never paused
            controls.keep_awake(request, key, controls.AwakeUntil(until=until))
    return _sandbox(workspace) | {"envdAccessToken": wire.token_in(request.headers)}


def _find(request, key: str, verb: str = "read") -> Workspace:
    """Return the workspace of a sandbox. Problem 404 also for one that was ended."""
    workspace = lookup.find(request, key, verb)
    if workspace.state in GONE:
        raise not_found("workspace of this sandbox")
    return workspace


async def _settled(request, key: str):
    """Wait until nothing is under way in the sandbox. Problem 409 with the reason if it could not be made."""
    look = partial(lambda: lookup.workspace_out(lookup.find(request, key)))
    found = await wait_for(look, lambda found: found["busy"] is None, team_ids=request.auth.team_ids, timeout=SETTLE_S)
    if found["state"] == State.FAILED:
        raise Problem(409, found["reason"])


def _list(request):
    asked = request.GET
    size = _limit(asked.get("limit", ""))
    rows = Workspace.objects.visible_to(request.auth).kept().exclude(state__in=GONE)
    wanted = {state for state in asked.get("state", "").split(",") if state}
    if wanted == {"paused"}:
        rows = rows.filter(state=State.PAUSED)
    elif wanted == {"running"}:
        rows = rows.exclude(state=State.PAUSED)
    if template := asked.get("template"):
        rows = rows.filter(environment__name=template)
    for name, value in parse_qsl(asked.get("metadata", ""), keep_blank_values=True):
        rows = rows.filter(pk__in=Workspace.objects.filter(label_rows__name=name, label_rows__value=value))
    page = page_of(rows.select_related(*lookup.SHOWN_WITH), asked.get("nextToken") or None, size=size)
    response = HttpResponse(content_type="application/json")
    response.content = wire.as_json([_detail(workspace) for workspace in page.rows])
    if page.cursor:
        response["X-Next-Token"] = page.cursor
    return response


def _limit(text: str) -> int:
    """Return how many sandboxes a list may have. Problem 422."""
    if text and not (text.isdecimal() and text.isascii()):
        raise invalid("limit is a number.")
    is_less = text and len(text.lstrip("0")) <= len(str(MOST_LISTED))
    return max(1, min(int(text), MOST_LISTED)) if is_less else MOST_LISTED


def _sandbox(workspace: Workspace) -> dict:
    return {
        "templateID": workspace.environment.name,
        "sandboxID": workspace.key,
        "clientID": workspace.team.slug,
        "envdVersion": ENVD_VERSION,
    }


def _detail(workspace: Workspace) -> dict:
    in_force = limits.in_force(workspace.environment)
    used = workspace.last_active_at or workspace.created_at
    asked = workspace.awake_until
    until = asked if asked and asked > clock.now() else used + idle_after(workspace)
    return _sandbox(workspace) | {
        "startedAt": workspace.created_at.isoformat(),
        "endAt": until.isoformat(),
        "cpuCount": int(in_force.get("cpus") or 0),
        "memoryMB": int(in_force.get("memory_bytes") or 0) // MIB,
        "diskSizeMB": int(in_force.get("disk_bytes") or 0) // MIB,
        "state": "paused" if workspace.state == State.PAUSED else "running",
        "metadata": workspace.labels,
    }
