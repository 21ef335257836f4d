"""The envelope of a program that an agent starts over the API; without one, the policy judges it or a person is asked.

The medium envelope holds it where the workspace's host can hold programs. In a container, or with HANDRAIL_HELD=0,
nothing does: then a command runs if the policy lets the same shell call run, and else it is asked for, as a terminal
always is. A verb whose declaration (dashboard/door) says `held` comes here.
"""

import re
import shlex

from django.conf import settings

from dashboard.models import Actor
from dashboard.problems import invalid
from workspaces import extensions
from workspaces.envelope.envelope import MEDIUM
from workspaces.models import State
from workspaces.operations import needs_approval
from workspaces.provisioning import isolation

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def envelope_for(workspace, by: Actor) -> dict | None:
    """Return the envelope of an agent's program that neither the policy judged nor a person approved.

    None for people, and where nothing can hold it.
    """
    is_held = needs_approval.is_unapproved(by) and isolation.holds_programs(workspace)
    return MEDIUM.to_json() if is_held else None


def is_unheld(workspace, by: Actor) -> bool:
    """Return whether an agent without an approval would start a program here that nothing holds.

    In a workspace that is being created nothing is started yet.
    """
    asks = settings.HANDRAIL_UNHELD == "ask" and workspace.state not in (State.CREATING, State.SETTING_UP)
    return asks and needs_approval.is_unapproved(by) and not isolation.holds_programs(workspace)


def require_for_command(workspace, wish: dict, cwd: str, *, by: Actor):
    """Raise AskFirst if a person has to allow the command. `wish` as in the API; `cwd`: where it starts."""
    needs_approval.require(workspace, "command", wish, by=by)
    if is_unheld(workspace, by) and not extensions.ports.runs_without_approval(
        workspace, shell_text(workspace, wish), cwd, by
    ):
        needs_approval.require(workspace, "command", wish | {"cwd": cwd}, by=by, always=True)


def require_for_terminal(workspace, wish: dict, *, by: Actor):
    """Raise AskFirst if a person has to allow the terminal: what is typed into one that nothing holds asks nobody."""
    needs_approval.require(workspace, "terminal", wish, by=by, always=is_unheld(workspace, by))


def shell_text(workspace, wish: dict) -> str:
    """Return the shell command that does what is wished: what the policy judges, and what a card shows. Problem 422."""
    variables = wish.get("env") or {}
    if variables and workspace.environment.capabilities.own_folder:
        raise invalid(
            "In a connected folder, set environment variables in the command itself, which is shown for approval."
        )
    if wrong := [name for name in variables if not _VARIABLE.fullmatch(name)]:
        raise invalid(f"{wrong[0]!r} is no name of a variable.")
    if check := wish.get("check"):
        text = workspace.environment.checks[check]
    else:
        text = wish["command"] if "command" in wish else shlex.join(wish["argv"])
    return "".join(f"export {name}={shlex.quote(value)}; " for name, value in variables.items()) + text
