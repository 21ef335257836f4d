"""The connection of a folder or a user to Handrail: a file of mode 0600 below HANDRAIL_HOME, which the hook reads."""

import json
from dataclasses import dataclass, field
from pathlib import Path

from django.conf import settings

from dashboard.files.atomic_write import replace_file
from dashboard.keys.key_files import make_private
from dashboard.models import Actor, Team, Token
from dashboard.net.addresses import in_url, to_call
from dashboard.people.provisioning import revoke
from dashboard.problems import unavailable
from workspaces import lifecycle, operations
from workspaces.models import State, Workspace

OPERATOR = Actor.system("operator")


@dataclass
class Connected:
    """The result of `connect`; `notes` are for the operator."""

    workspace: Workspace
    notes: list[str] = field(default_factory=list)


def connection_of(workspace) -> Path:
    """Return the path of the connection file of a connected folder; it holds the token, so its mode is 0600."""
    return settings.HANDRAIL_HOME / "connections" / f"{workspace.pk}.json"


def local_address() -> str:
    """Return Handrail's URL for hooks on this machine."""
    return f"http://{in_url(to_call(settings.HANDRAIL_HOST))}:{settings.HANDRAIL_PORT}"


def write(path: Path, told: dict):
    make_private(path.parent)
    replace_file(path, json.dumps(told, indent=1).encode())


def wait_until_ready(workspace):
    operation = workspace.operations.get(kind="create")
    operation = operations.wait(operation, 120)
    if not operations.is_over(operation):
        raise unavailable("The runner isn't responding. Start Handrail with `make up`, then connect again.")
    workspace.refresh_from_db()
    if workspace.state != State.READY:
        raise unavailable(f"The folder could not be connected: {workspace.reason}")


def trash(workspace):
    """Revoke the tokens of a connected folder's agent and move the workspace to the trash."""
    with Team.objects.turn(workspace.team_id):
        revoke(Token.objects.filter(workspace=workspace, agent__isnull=False), by=OPERATOR)
        workspace.refresh_from_db()
        if not workspace.trashed_at:
            lifecycle.trash(workspace, by=OPERATOR)
