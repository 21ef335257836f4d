"""Tell a person, as a session begins, of another hook that could change a call, or of code around Handrail's own."""

from contextlib import suppress
from pathlib import Path

from django.conf import settings

from approvals.agents import part
from approvals.agents.dialect import Dialect, Reply
from approvals.agents.hook_events import Began
from approvals.hooks.workspace_of import workspace_of
from dashboard.models import Actor
from dashboard.problems import Problem
from workspaces import lifecycle

SEEN_BY = Actor.system("hook watch")


def warning(request, heard: Began, dialect: Dialect, caller) -> Reply:
    """Return what the person at the terminal reads, and record it, if there is such a hook in a connected folder."""
    workspace = None
    with suppress(Problem):
        workspace = workspace_of(request, heard, caller)
    own = part(dialect.name, "own_settings")
    if own is None or workspace is None or not (root := workspace.own_folder):
        return Reply()
    if workspace.runner is None or workspace.runner.host != settings.HANDRAIL_HOST_NAME:
        return Reply()
    of_session = Path(root), Path(heard.cwd) if heard.cwd else None
    found = own.code_around_hooks(*of_session) or own.other_hook(*of_session)
    if not found:
        return Reply()
    lifecycle.record(workspace, SEEN_BY, "workspace.other_hook", {"problem": found, "session": heard.session})
    return Reply(user_message=f"Handrail: {found}")
