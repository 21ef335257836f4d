"""Export the commits of a workspace as a git bundle or by a push to a branch."""

import hashlib
import json
import re
from contextlib import suppress

from dashboard.models import Actor, Team
from dashboard.problems import Problem, conflict
from workspaces import code_hosts, extensions, lifecycle, operations
from workspaces.models import Operation, Workspace
from workspaces.operations import needs_approval, runner_client
from workspaces.provisioning.git import names
from workspaces.services import pull_request_templates, pushed

GIT_SECONDS = 20
HOST_SECONDS = 10  # for the source to name its default branch


def bundle(workspace, *, by: Actor) -> Operation:
    """Create a git bundle of the workspace's commits; downloads.read_bundle reads it once the operation is over."""
    lifecycle.resume_for_use(workspace, by=by)
    return operations.submit("bundle", workspace=workspace, by=by)


def push(workspace, branch: str, *, by: Actor, sha: str = "", seen: str = "") -> Operation:
    """Push HEAD to a branch of the source repository.

    With `sha`, only if HEAD is still that commit; with `seen` (`seen_of`), only if it sends what was shown.
    """
    check_push(workspace, branch)
    needs_approval.require(workspace, "push", {"branch": branch}, by=by, always=True)
    lifecycle.resume_for_use(workspace, by=by)
    args = {"branch": branch, "sha": sha, "seen": seen, "remote": workspace.remote}
    return operations.submit("push", workspace=workspace, by=by, args=args)


def check_push(workspace, branch: str, *, field: str = "branch"):
    """Problem 409 without a git source and for a reviewer's copy, 422 for an invalid branch, which `field` holds."""
    if not workspace.remote:
        raise conflict(f"{workspace.key} was not created from a git address, so there is nowhere to push.")
    if extensions.ports.is_review(workspace):
        raise conflict(f"{workspace.key} is the copy of a reviewer, from which nothing is pushed.")
    names.check_branch(branch, field=field)


def question_of(workspace, *branches: str) -> dict:
    """Return the question for git about a push of HEAD to branches, and about what it leaves out.

    HEAD stands for a branch that is not named yet; every other one goes by its full name, as no branch is called HEAD.
    `known`: what the source has from earlier pushes, which the repository's own record of it does not show.
    """
    refspecs = [f"HEAD:{branch if branch == 'HEAD' else names.HEADS + branch}" for branch in branches]
    asked = {"folder": "", "remote": "origin", "refspecs": refspecs, "left": True, "own": True}
    return asked | ({"known": known} if (known := pushed.pushed_commits(workspace)) else {})


def would_push(workspace, branch: str = "HEAD") -> dict:
    """Return git's answer about a push (runner/git/probe.py push); {"error": sentence} where git can't be asked."""
    return _ask(workspace, question_of(workspace, branch))


def would_open(workspace, branch: str) -> dict:
    """Return git's answer about what a pull request of a branch brings, also if it was pushed to that branch before.

    What only other branches have is not its own, unless it has nothing else. `template`: the text of the repository's.
    """
    repository = code_hosts.repository_of(workspace.remote)
    templates = pull_request_templates.PLACES[code_hosts.kind_of(repository) if repository else ""]
    question = question_of(workspace, "HEAD") | {"templates": templates}
    known = {name: sha for name, sha in question.pop("known", {}).items() if name != branch}
    told = _ask(workspace, question | {"known": known})
    return told if not known or any(sent.get("count") for sent in told.get("sends", ())) else _ask(workspace, question)


def _ask(workspace, question: dict) -> dict:
    body = json.dumps(question).encode()
    try:
        return runner_client.ask("POST", workspace, "git-push", body=body, timeout=GIT_SECONDS)
    except Problem as problem:
        return {"error": problem.detail}


def seen_of(sent: dict) -> str:
    """Return a digest of what a push sends (one of `sends`, runner/git/probe.py), as it is shown to a person."""
    told = {name: sent[name] for name in ("sha", "base", "count", "commits", "files")}
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()


# Branches -------------------------------------------------------------------------------------------------------------


def proposed_branch(workspace, current: str, *, is_there: bool) -> str:
    """Return a name for the branch of a push: the branch that HEAD is on, unless that is the source's default one.

    `is_there`: whether the repository knows of that branch at the source, which stands in for an unknown default.
    """
    default = workspace.default_branch
    is_own = not code_hosts.same_branch(current, default) if default else not is_there
    return current if current and is_own else own_branch(workspace)


def own_branch(workspace) -> str:
    """Return a name for a branch that is made from the workspace's key, which git takes."""
    # pattern: a key is Handrail's own, and short
    name = re.sub(r"(\.lock|\.)+$", "", re.sub(r"\.{2,}", ".", workspace.key))
    return f"handrail/{name}"


def another_branch(operation: Operation) -> str:
    """Return a name for another branch than the one that a push or pull request was for."""
    own = own_branch(operation.workspace)
    return f"{own}-2" if operation.args.get("branch") == own else own


def find_default_branch(workspace) -> str:
    """Return the source's default branch as it was when it was cloned, else as it is now; "" without an answer."""
    if not workspace.default_branch and workspace.remote:
        with suppress(Problem):
            asked = json.dumps({"base": ""}).encode()
            named = runner_client.ask("POST", workspace, "pull-request-base", body=asked, timeout=HOST_SECONDS)
            _keep_default_branch(workspace, next(iter(named["defaults"]), ""))
    return workspace.default_branch


def _keep_default_branch(workspace, name: str):
    """Keep the name with the workspace's source, beside the address that it is of."""
    with Team.objects.turn(workspace.team_id):
        row = Workspace.objects.locked().get(pk=workspace.pk)
        if name and row.remote == workspace.remote:
            workspace.source = row.source | {"default_branch": name}
            Workspace.objects.filter(pk=row.pk).update(source=workspace.source)
