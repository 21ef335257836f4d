"""Check the hooks of connected folders, several times a minute in the runner, and restore them by request."""

import json
import time
from contextlib import suppress
from pathlib import Path

from django.conf import settings
from django.db import transaction

from approvals.connect import claude_folder, claude_settings
from dashboard import clock
from dashboard.models import Actor
from dashboard.problems import Problem, conflict
from workspaces import lifecycle, operations
from workspaces.models import FOLDER, State, Workspace
from workspaces.runner.job import Kind

INTERVAL = 15  # seconds
WATCH = Actor.system("hook watch")
_checked_at = -INTERVAL


def put_all():
    """Write or remove the hook of each connected folder of this host, after `connect --system` or its undo."""
    for workspace in connected_here():
        connection = claude_folder.connection_of(workspace)
        if connection.exists():
            with suppress(Problem, OSError):  # the sweep records what is wrong with that folder
                claude_folder.put_hook_in(Path(workspace.source["path"]), connection)


def connected_here():
    """Return the connected folders of this host that are set up."""
    here = Workspace.objects.kept().filter(environment__driver=FOLDER, runner__host=settings.HANDRAIL_HOST_NAME)
    return here.exclude(state__in=[State.CREATING, State.SETTING_UP])


def sweep():
    """Check each connected folder of this host, at most once per INTERVAL."""
    global _checked_at
    if time.monotonic() - _checked_at < INTERVAL:
        return
    _checked_at = time.monotonic()
    for workspace in connected_here():
        check(workspace, by=WATCH)


def check(workspace, *, by: Actor):
    """Store whether the folder's hook is in place, and record an event when that changed."""
    found = problem_of(workspace)
    if found is None or found == workspace.hook_problem:
        return
    # Of two concurrent checks, only one records the event.
    mine = Workspace.objects.filter(pk=workspace.pk, hook_problem=workspace.hook_problem)
    since = {} if found and workspace.hook_problem else {"hook_problem_at": clock.now() if found else None}
    with transaction.atomic():
        if not mine.update(hook_problem=found, **since):
            return
        if found:
            lifecycle.record(workspace, by, "workspace.hook_missing", {"problem": found})
        else:
            lifecycle.record(workspace, by, "workspace.hook_in_place")


def problem_of(workspace) -> str | None:
    """Return why Claude Code in this folder is not gated: "" when it is, None while `connect` still runs."""
    connection = claude_folder.connection_of(workspace)
    try:
        if not json.loads(connection.read_text()).get("connected"):
            return None
    except (OSError, ValueError):
        return "The connection file is missing. Run `disconnect`, then `connect` again."
    folder = Path(workspace.source["path"])
    if not folder.is_dir():
        return f"The folder {folder} does not exist."
    if claude_settings.is_system_gated():
        return ""
    return claude_settings.problem(folder, claude_settings.entries(connection))


def put_back(workspace, *, by: Actor):
    """Submit an operation that restores the hook, and return it: only the runner writes files. Problem 409."""
    if workspace.environment.driver != FOLDER or workspace.trashed_at:
        raise conflict(f"{workspace.key} is not a connected folder.")
    return operations.submit("put_hook_back", workspace=workspace, by=by)


class PutBack(Kind):
    """Merge the hook into the settings file as it is now; idempotent."""

    async def perform(self, job):
        workspace = await job.refresh()
        await job.mark_started()
        await job.thread(self._put, workspace)
        return {"ok": True, "reason": "Hook restored. Restart sessions that started without it."}

    def _put(self, workspace):
        connection = claude_folder.connection_of(workspace)
        if not connection.exists():
            raise conflict(problem_of(workspace))
        claude_folder.put_hook_in(Path(workspace.source["path"]), connection)

    def finish(self, job, outcome):
        check(Workspace.objects.get(pk=job.operation.workspace_id), by=job.by)


carrier = PutBack()
