"""Say why nobody works under a key: its workspace is in the trash (until when), was deleted for good, or never was."""

from dashboard.database import clock
from dashboard.problems import Problem, conflict, gone, not_found
from workspaces.models import Workspace

IN_TRASH, PURGED = "workspace_in_trash", "workspace_purged"


def refusal_of_key(rows, *, in_trash: int = 404) -> Problem:
    """Return the refusal for a key; `rows`: workspaces that had it and that the caller may see, none of them kept.

    `in_trash`: the status for one in the trash.
    """
    trashed = rows.in_trash().order_by("-trashed_at").first()
    newest = trashed or rows.order_by("-created_at").first()
    return not_found("workspace") if newest is None else refusal_of(newest, in_trash=in_trash)


def refusal_of(workspace: Workspace, *, in_trash: int = 409) -> Problem:
    """Return the refusal for a workspace that is in the trash or was deleted for good."""
    if workspace.purged_at is not None:
        return _purged(workspace)
    until = f"{workspace.key} is in the trash until {clock.in_utc(workspace.purge_at)}."
    return Problem(in_trash, until, code=IN_TRASH, in_trash_until=workspace.purge_at.isoformat())


def refuse_to_create(rows):
    """Problem 409 or 410 unless a new workspace may have the key of these, none of which is kept."""
    problem = refusal_of_key(rows, in_trash=409)
    if problem.extra["code"] == IN_TRASH:
        raise conflict(f"{problem.detail} Restore it, or start empty.", **problem.extra)
    if problem.extra["code"] == PURGED:
        raise problem


def _purged(workspace: Workspace) -> Problem:
    since = clock.in_utc(workspace.purged_at)
    words = f"{workspace.key} was deleted for good at {since}. `fresh: true` starts a new one with this key."
    return gone(words, code=PURGED, gone_at=workspace.purged_at.isoformat())
