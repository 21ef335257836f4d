"""Find the workspace of a hook's event, and count the event as activity there."""

from contextlib import suppress

from approvals.agents.hook_events import HookEvent
from approvals.evaluation import calls
from approvals.hooks.connection import UNKNOWN, connection_of
from dashboard.problems import Problem
from workspaces.lifecycle import activity
from workspaces.models import Workspace


def workspace_of(request, heard: HookEvent, caller) -> Workspace | None:
    """Return the workspace that the hook is for, None if there is none; it is looked up once. Problem 404, 409, 410."""
    connection = connection_of(request)
    if connection.workspace is UNKNOWN:
        key = request.headers.get("X-Handrail-Workspace") or request.GET.get("workspace")
        connection.workspace = calls.find_workspace(key, caller) or calls.folder_around(heard.cwd, caller)
    return connection.workspace


def sign_of_life(request, heard: HookEvent, caller):
    """Count the start or end of a session as activity of its workspace, as each of its calls does."""
    with suppress(Problem):
        if workspace := workspace_of(request, heard, caller):
            activity.touch(workspace)
