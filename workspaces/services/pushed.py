"""The newest push to each branch, read from the settled pushes and pull requests of a workspace."""

from dataclasses import dataclass
from datetime import datetime

from workspaces.models import Operation, Phase

KINDS = ("push", "pull_request")
TAKEN_BACK = "take_back"  # the kind after which pushes that came before may not be there any more
MOST_READ = 100  # operations, the newest
MOST_KNOWN = 20  # pushes that git is told


@dataclass(frozen=True)
class Pushed:
    """The newest push of a workspace to a branch of its source; `label` is who asked for it."""

    branch: str
    sha: str
    at: datetime
    label: str


def newest_pushes(workspace) -> list[Pushed]:
    """Return the newest push to each branch of the workspace's present source, the newest first.

    A later push that found the source without these commits has ended their memory (`forgets` in its outcome).
    """
    rows = Operation.objects.filter(workspace=workspace, kind__in=(*KINDS, TAKEN_BACK), phase=Phase.SETTLED)
    found: dict[str, Pushed] = {}
    for row in rows.order_by("-settled_at", "-created_at").only("args", "outcome", "by", "settled_at")[:MOST_READ]:
        if row.outcome.get("forgets"):
            break
        arrived = _arrived(row)
        if arrived and row.args.get("remote") == workspace.remote:
            branch, sha = arrived
            found.setdefault(branch, Pushed(branch, sha, row.settled_at, row.by.get("label", "")))
    return list(found.values())


def _arrived(row: Operation) -> tuple[str, str] | None:
    """Return the branch and the commit that arrived there, also if what came after the push failed."""
    if told := row.outcome.get("pushed"):
        return told["branch"], told["sha"]
    return (row.args["branch"], row.outcome["sha"]) if row.outcome.get("sha") else None


def pushed_commits(workspace) -> dict[str, str]:
    """Return {branch: commit} that the source got from this workspace, or from the one that it is a fork of."""
    found = newest_pushes(workspace)
    if workspace.forked_from_id and workspace.forked_from.remote == workspace.remote:
        found += newest_pushes(workspace.forked_from)
    newest = sorted(found, key=lambda each: each.at, reverse=True)
    told: dict[str, str] = {}
    for each in newest[:MOST_KNOWN]:
        told.setdefault(each.branch, each.sha)
    return told
