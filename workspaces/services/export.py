"""Export the commits of a workspace as a git bundle or by a push to a branch."""

import hashlib
import json
import re

from dashboard.models import Actor
from dashboard.problems import Problem, conflict, invalid
from workspaces import lifecycle, needs_approval, operations, runner_client
from workspaces.models import Operation

GIT_SECONDS = 20
BRANCH = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._/@{}+-]{0,199}")


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
    if branch.startswith("refs/"):
        raise invalid("Give the branch's name alone, without refs/heads/.", field=field)
    not_taken = ".." in branch or "@{" in branch or "//" in branch or branch.endswith((".lock", "/", "."))
    if not BRANCH.fullmatch(branch) or not_taken or branch == "HEAD":
        raise invalid("Not a valid branch name.", field=field)


def question_of(*branches: str) -> dict:
    """Return the question for git about a push of HEAD to branches, and about what it leaves out."""
    refspecs = [f"HEAD:{branch}" for branch in branches]
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
