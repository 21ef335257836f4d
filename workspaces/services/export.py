"""Export the commits of a workspace as a git bundle or by a push to a branch."""

import re

from dashboard.models import Actor
from dashboard.problems import conflict, invalid
from workspaces import lifecycle, needs_approval, operations
from workspaces.models import Operation

BRANCH = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._/@{}+-]{0,199}")


def bundle(workspace, *, by: Actor) -> Operation:
    """Create a git bundle of the workspace's commits; history.read_bundle reads it once the operation is over."""
    lifecycle.resume_for_use(workspace, by=by)
    return operations.submit("bundle", workspace=workspace, by=by)


def push(workspace, branch: str, *, by: Actor, sha: str = "") -> Operation:
    """Push HEAD to a branch of the source repository; with `sha`, only if HEAD is still that commit."""
    check_push(workspace, branch)
    needs_approval.require(workspace, "push", {"branch": branch}, by=by, always=True)
    lifecycle.resume_for_use(workspace, by=by)
    return operations.submit("push", workspace=workspace, by=by, args={"branch": branch, "sha": sha})


def check_push(workspace, branch: str):
    """Problem 409 if the workspace has no git source, 422 for an invalid branch name."""
    if not workspace.source.get("git"):
        raise conflict(f"{workspace.key} was not created from a git address, so there is nowhere to push.")
    if not BRANCH.fullmatch(branch) or ".." in branch or "@{" in branch or branch.endswith((".lock", "/", ".")):
        raise invalid("Not a valid branch name.")
