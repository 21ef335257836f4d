"""Previews of ports: opened by a person on the desk, entered once with a ticket, and checked at each request.

The desk and a preview never share a host name, so what an agent serves there can't act as the person on the desk.
"""

import hashlib
import re
import secrets
from dataclasses import dataclass
from datetime import timedelta
from urllib.parse import urlencode, urlsplit
from uuid import UUID

from django.conf import settings
from django.contrib.sessions.models import Session

from dashboard.database import clock
from dashboard.models import Team
from dashboard.net.addresses import PREVIEWS, is_loopback, local_preview_host
from dashboard.people.access import Caller, caller_of
from dashboard.problems import conflict, invalid
from workspaces import lifecycle
from workspaces.lifecycle import activity
from workspaces.models import Preview, Run, State, Workspace
from workspaces.services import network

ENTER = "/.handrail/enter"  # on the preview's host
TICKET_LIFETIME = timedelta(minutes=1)
LIFETIME = timedelta(hours=8)
ENVD_PORT = 49983  # whose names below HANDRAIL_PREVIEW_HOST are those of E2B's SDKs
OUR_PORTS = (80, 3128, ENVD_PORT)  # the first two are the proxy's own in each workspace
LABEL = re.compile(r"(\d{1,5})-([0-9a-f]{32})")


@dataclass(frozen=True)
class Target:
    """A preview that may be shown now: its workspace, and the Run that is up (None: the workspace is not)."""

    workspace: Workspace
    port: int
    run_id: UUID | None


def is_offered(workspace: Workspace) -> bool:
    """Return whether ports of this workspace can be previewed here."""
    return not why_not(workspace)


def why_not(workspace: Workspace) -> str:
    """Return why ports of a workspace can't be previewed, as a sentence; "" if they can."""
    if not settings.HANDRAIL_PREVIEW_HOST:
        return f"Previews are off: they need a host name of their own. {_what_to_set()}"
    if not network.has_managed_network(workspace):
        return "A connected folder uses this machine's own network; open its ports there."
    return ""


def _what_to_set() -> str:
    desk = urlsplit(settings.HANDRAIL_DESK_URL)
    if name := local_preview_host(desk.hostname):
        return f"Set HANDRAIL_PREVIEW_HOST={name}."
    if is_loopback(desk.hostname):
        port = f":{desk.port}" if desk.port else ""
        return f"Set HANDRAIL_PUBLIC_URL={desk.scheme}://127.0.0.1{port}; previews are then at {PREVIEWS}."
    return "Set HANDRAIL_PREVIEW_HOST to one on another domain than the desk's, such as preview.example.net."


def open_for(workspace: Workspace, port: int, *, caller: Caller, session_key: str = "") -> str:
    """Return the address that enters a preview once, within TICKET_LIFETIME. Problem 409 or 422 if there can be none.

    The preview ends with the sign-in whose session this is, after LIFETIME, and with the person's right to look.
    """
    if words := why_not(workspace):
        raise conflict(words)
    if workspace.trashed_at:
        raise conflict(f"{workspace.key} is in the trash.")
    if not 0 < port < 65536 or port in OUR_PORTS:
        raise invalid("A port is a number from 1 to 65535, other than 80, 3128 and 49983.")
    ticket, now = secrets.token_urlsafe(32), clock.now()
    with Team.objects.turn(workspace.team_id):
        Preview.objects.filter(expires_at__lt=now).delete()
        Preview.objects.create(
            workspace=workspace,
            port=port,
            user=caller.user,
            session_key=session_key,
            ticket_sha256=_sha256(ticket),
            created_at=now,
            expires_at=now + LIFETIME,
        )
        lifecycle.record(workspace, caller.actor, "workspace.preview_opened", {"port": port, "reason": str(port)})
    return f"{address_of(workspace, port)}{ENTER}?{urlencode({'ticket': ticket})}"


def address_of(workspace: Workspace, port: int) -> str:
    """Return the origin of a preview, such as http://3000-….preview.localhost:8000."""
    return origin_of(f"{port}-{workspace.pk.hex}")


def origin_of(label: str) -> str:
    """Return the origin of a label below the preview host, with the scheme and port of the desk."""
    desk = urlsplit(settings.HANDRAIL_DESK_URL)
    port = f":{desk.port}" if desk.port else ""
    return f"{desk.scheme}://{label}.{settings.HANDRAIL_PREVIEW_HOST}{port}"


def origins() -> str:
    """Return the origins of all previews, as a source of a content security policy."""
    return origin_of("*")


def label_of(host: str) -> str | None:
    """Return the label below HANDRAIL_PREVIEW_HOST that a Host header names; None for any other host."""
    name = host.lower().rpartition(":")[0] if re.search(r":\d+\Z", host) else host.lower()
    label, dot, rest = name.partition(".")
    return label if dot and settings.HANDRAIL_PREVIEW_HOST and rest == settings.HANDRAIL_PREVIEW_HOST else None


def enter(label: str, ticket: str) -> str | None:
    """Use up a ticket and return the secret for the cookie; None for one that is used, late or of another preview."""
    if (named := _named(label)) is None:
        return None
    secret, now = secrets.token_urlsafe(32), clock.now()
    port, workspace = named
    fresh = Preview.objects.filter(
        port=port,
        workspace=workspace,
        ticket_sha256=_sha256(ticket),
        ticket_used_at=None,
        created_at__gt=now - TICKET_LIFETIME,
    )
    return secret if fresh.update(ticket_used_at=now, secret_sha256=_sha256(secret)) else None


def target_of(label: str, secret: str) -> Target | None:
    """Return what the holder of a cookie may see at this label now; None if that is nothing. Counts as activity."""
    if (named := _named(label)) is None or not secret:
        return None
    port, workspace_id = named
    found = (
        Preview.objects.filter(port=port, workspace=workspace_id, secret_sha256=_sha256(secret))
        .filter(expires_at__gt=clock.now())
        .select_related("workspace__environment", "user")
        .first()
    )
    if found is None or not _may_still(found):
        return None
    workspace = found.workspace
    activity.touch(workspace)
    is_up = workspace.state == State.READY
    run = Run.objects.filter(workspace=workspace, ended_at=None).values_list("pk", flat=True).first() if is_up else None
    return Target(workspace, port, run)


def _may_still(preview: Preview) -> bool:
    if preview.workspace.trashed_at or not caller_of(preview.user).can("preview", preview.workspace.team_id):
        return False
    key = preview.session_key
    return not key or Session.objects.filter(session_key=key, expire_date__gt=clock.now()).exists()


def _named(label: str) -> tuple[int, UUID] | None:
    match = LABEL.fullmatch(label)
    return (int(match[1]), UUID(match[2])) if match else None


def _sha256(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()
