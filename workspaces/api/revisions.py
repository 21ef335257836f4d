"""Revisions of a workspace's source."""

from asgiref.sync import sync_to_async
from ninja import Router, Status

from dashboard.problems import Problem, conflict
from dashboard.web.api_base import PROBLEMS, AsyncBearer
from workspaces import operations
from workspaces.api import schemas
from workspaces.api.lookup import find
from workspaces.services import revisions

router = Router(tags=["workspaces"])
WAIT_SECONDS = 50  # less than most clients and proxies wait for an answer


@router.post(
    "/workspaces/{key}/revisions",
    response={201: schemas.RevisionOut, 202: schemas.RevisionOut} | PROBLEMS,
    auth=AsyncBearer(),
)
async def take_revision(request, key: str, wish: schemas.NewRevision):
    """Merge the next revision of its source into a workspace, or replace its files; a snapshot is taken first.

    409 lists the `conflicts`: paths that both changed to different results, with the lines. With `how` conflicts are
    left in the files as git marks them; the answer is 202, and the operation's outcome has `merged` and `conflicts`.
    """
    operation = await sync_to_async(_asked)(request, key, wish)
    if wish.how is None:
        operation = await operations.wait_async(operation, WAIT_SECONDS)
    outcome = operation.outcome or {}
    if operations.is_over(operation) and not outcome["ok"]:
        if "conflicts" in outcome:
            extra = {name: outcome[name] for name in ("conflicts", "safety_snapshot")}
            raise conflict(outcome["reason"], **extra)
        raise Problem(409, outcome["reason"])
    told = {name: outcome.get(name) for name in ("revision", "snapshot", "created", "changed", "removed")}
    known = {
        "operation": str(operation.pk),
        "state": operation.phase,
        "safety_snapshot": operation.progress.get("safety_snapshot"),
    }
    return Status(201 if outcome and wish.how is None else 202, told | known)


def _asked(request, key, wish):
    workspace = find(request, key, "use_workspace")
    source = {name: value for name, value in wish.source().items() if value is not None}
    how = {"base": wish.base, "replace": wish.mode == "replace", "how": wish.how}
    return revisions.ask(workspace, source, by=request.auth.actor, **how)
