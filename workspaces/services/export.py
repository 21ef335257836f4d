"""Export the commits of a workspace as a git bundle or by a push to a branch."""

import hashlib
import json

from dashboard.models import Actor
from dashboard.problems import Problem, conflict
from workspaces import lifecycle, needs_approval, operations, runner_client
from workspaces.models import Operation
from workspaces.provisioning.git import names

GIT_SECONDS = 20


def bundle(workspace, *, by: Actor) -> Operation:
    """Create a git bundle of the workspace's commits; history.read_bundle reads it once the operation is over."""
    lifecycle.resume_for_use(workspace, by=by)
    return operations.submit("bundle", workspace=workspace, by=by)


def push(workspace, branch: str, *, by: Actor, sha: str = "", seen: str = "") -> Operation:
    """Push HEAD to a branch of the source repository.

    With `sha`, only if HEAD is still that commit; with `seen` (`seen_of`), only if it sends what was shown.
    """
    check_push(workspace, branch)
    needs_approval.require(workspace, "push", {"branch": branch}, by=by, always=True)
    lifecycle.resume_for_use(workspace, by=by)
    return operations.submit("push", workspace=workspace, by=by, args={"branch": branch, "sha": sha, "seen": seen})


def check_push(workspace, branch: str, *, field: str = "branch"):
    """Problem 409 if the workspace has no git source, 422 for an invalid branch name, which `field` holds."""
    if not workspace.remote:
        raise conflict(f"{workspace.key} was not created from a git address, so there is nowhere to push.")
    names.check_branch(branch, field=field)


def question_of(*branches: str) -> dict:
    """Return the question for git about a push of HEAD to branches, and about what it leaves out.

    HEAD stands for the branch that is checked out; every other one goes by its full name, as no branch is called HEAD.
    """
    refspecs = [f"HEAD:{branch if branch == 'HEAD' else names.HEADS + branch}" for branch in branches]
    return {"folder": "", "remote": "origin", "refspecs": refspecs, "left": True, "own": True}


def would_push(workspace, branch: str = "HEAD") -> dict:
    """Return git's answer about a push (runner/git/probe.py push); {"error": sentence} where git can't be asked."""
    question = json.dumps(question_of(branch)).encode()
    try:
        return runner_client.ask("POST", f"/workspaces/{workspace.pk}/git-push", body=question, timeout=GIT_SECONDS)
    except Problem as problem:
        return {"error": problem.detail}


def seen_of(sent: dict) -> str:
    """Return a digest of what a push sends (one of `sends`, runner/git/probe.py), as it is shown to a person."""
    told = {name: sent[name] for name in ("sha", "base", "count", "commits", "files")}
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()
