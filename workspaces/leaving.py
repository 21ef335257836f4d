"""Work gets out of a workspace: as a git bundle, or by a push to a branch."""

import re

from dashboard.models import Actor
from dashboard.problems import conflict, invalid
from workspaces import effects, lifecycle
from workspaces.models import Effect

BRANCH = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._/@{}+-]{0,199}")


def bundle(workspace, *, by: Actor) -> Effect:
    """A git bundle of what is committed in the workspace; read it with history.read_bundle once the effect is over."""
    lifecycle.wake(workspace, by=by)
    return effects.submit(f"{lifecycle.KINDS}.bundle", workspace=workspace, by=by)


def push(workspace, branch: str, *, by: Actor) -> Effect:
    """Push HEAD to a branch of the repository it came from, by the runner, with the host's credentials."""
    check_push(workspace, branch)
    lifecycle.wake(workspace, by=by)
    return effects.submit(f"{lifecycle.KINDS}.push", workspace=workspace, by=by, args={"branch": branch})


def check_push(workspace, branch: str):
    """Problem 409, 422 for a push that makes no sense."""
    if not workspace.source.get("git"):
        raise conflict(f"{workspace.key} did not come from a git address, so there is nowhere to push to.")
    if not BRANCH.fullmatch(branch) or ".." in branch or "@{" in branch or branch.endswith((".lock", "/", ".")):
        raise invalid("That is no name for a branch.")
