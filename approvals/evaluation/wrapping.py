"""Which of an agent's calls its hook can answer with a changed call: shell calls in a held folder."""

from pathlib import Path

from django.conf import settings

from approvals.agents import own_settings
from approvals.evaluation.calls import root_of
from workspaces.models import State


def is_up(workspace) -> bool:
    """Return whether a box for calls of this workspace is up, as far as the database knows."""
    if workspace is None or not workspace.environment.capabilities.own_folder or not settings.HANDRAIL_HELD:
        return False
    return workspace.held and workspace.state == State.READY and not workspace.trashed_at


def can_wrap(tool: str, arguments: dict, cwd: str, workspace) -> bool:
    """Return whether a call can be answered with a changed one: no rule or hook of the person's own would miss it."""
    if tool != "Bash" or not is_up(workspace) or not isinstance(arguments.get("command"), str):
        return False
    root, folder = Path(root_of(workspace)), Path(cwd)
    if own_settings.other_hook(root, folder):
        return False
    return not own_settings.may_match(root, folder, arguments["command"])
