"""Check the hooks of connected folders, several times a minute in the runner, and restore them by request."""

import time
from contextlib import suppress

from django.conf import settings

from approvals.connect import folder_hooks
from dashboard.database import clock
from dashboard.models import Actor, Team
from dashboard.problems import Problem, conflict
from workspaces import lifecycle, operations
from workspaces.models import State, Workspace

INTERVAL = 15  # seconds
WATCH = Actor.system("hook watch")
_checked_at = -INTERVAL


def put_all():
    """Write or remove the hook of each connected folder of this host, after `connect --system` or its undo."""
    for workspace in connected_here():
        with suppress(Problem, OSError):  # the sweep records the problem of that folder
            folder_hooks.put_in(workspace)


def connected_here():
    """Return the connected folders of this host that are set up."""
    here = Workspace.objects.kept().connected_folders().filter(runner__host=settings.HANDRAIL_HOST_NAME)
    return here.exclude(state__in=[State.CREATING, State.SETTING_UP])


def sweep():
    """Check each connected folder of this host, at most once per INTERVAL."""
    global _checked_at
    if time.monotonic() - _checked_at < INTERVAL:
        return
    _checked_at = time.monotonic()
    for workspace in connected_here().select_related("created_by_agent"):
        check(workspace, by=WATCH)


def check(workspace, *, by: Actor):
    """Store whether the folder's hook is in place, and record an event when that changed."""
    found = folder_hooks.why_not_gated(workspace)
    if found is None or found == workspace.hook_problem:
        return
    # Of two concurrent checks, only one records the event.
    mine = Workspace.objects.filter(pk=workspace.pk, hook_problem=workspace.hook_problem)
    since = {} if found and workspace.hook_problem else {"hook_problem_at": clock.now() if found else None}
    with Team.objects.turn(workspace.team_id):
        if not mine.update(hook_problem=found, **since):
            return
        if found:
            lifecycle.record(workspace, by, "workspace.hook_missing", {"problem": found})
        else:
            lifecycle.record(workspace, by, "workspace.hook_in_place")


def put_back(workspace, *, by: Actor):
    """Submit an operation that restores the hook, and return it: only the runner writes files. Problem 409."""
    if not workspace.environment.capabilities.own_folder or workspace.trashed_at:
        raise conflict(f"{workspace.key} is not a connected folder.")
    return operations.submit("put_hook_back", workspace=workspace, by=by)
