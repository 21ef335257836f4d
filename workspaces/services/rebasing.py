"""Rebase a workspace's commits on its repository's branch as it is now, and check the result."""

from dashboard.models import Actor
from dashboard.problems import conflict
from workspaces.models import Operation, RevisionHow
from workspaces.services import returning, revisions


def rebase(workspace, *, by: Actor) -> Operation:
    """Rebase on the branch that the workspace was made from; its checks run once that is done without a conflict.

    A snapshot is taken first. A conflict is left in the files as git marks it. Problem 409 for a workspace that came
    from no repository, or that is not up, paused or stopped.
    """
    if not workspace.remote:
        raise conflict(f"{workspace.key} did not come from a repository, so there is nothing to rebase on.")
    source = returning.clean_source(workspace) or {}
    wish = {"git": workspace.remote} | ({"ref": source["ref"]} if source.get("ref") else {})
    return revisions.ask(workspace, wish, how=RevisionHow.REBASE, then_check=True, by=by)
