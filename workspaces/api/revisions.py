"""Revisions of a workspace's source."""

from asgiref.sync import sync_to_async
from ninja import Router, Schema, Status
from pydantic import Field

from dashboard.problems import Problem, conflict
from dashboard.web.api_base import PROBLEMS, AsyncBearer
from workspaces import operations
from workspaces.api import schemas
from workspaces.api.lookup import find
from workspaces.models import Workspace
from workspaces.services import collisions, rebasing, revisions
from workspaces.services.collisions import shown

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


class CollisionOut(Schema):
    workspace: str = Field(description="the key of the other one")
    first: str = Field(description="the key of the one that had better be merged first; the other one rebases")
    files: list[str] = Field(description="paths that both changed differently")
    lines: list[str] = Field(description="those of them that git could not merge")


class CollidingOut(Schema):
    collisions: list[CollisionOut]
    order: list[str] = Field(description="keys in the order in which they had better be merged")


@router.get("/workspaces/{key}/collisions", response={200: CollidingOut} | PROBLEMS)
def list_collisions(request, key: str):
    """Say which open workspaces of the team change the same files as this one, as of the newest snapshots."""
    workspace = find(request, key)
    seen = set(Workspace.objects.visible_to(request.auth).values_list("pk", flat=True))
    found = collisions.of_workspace(workspace)
    told = [
        {
            "workspace": each.other(workspace).key,
            "first": each.first.key,
            "files": [shown(name) for name in each.files],
            "lines": [shown(name) for name in each.lines],
        }
        for each in found.collisions
        if each.other(workspace).pk in seen
    ]
    return {"collisions": told, "order": [place.key for place in found.order if place.pk in seen]}


@router.post("/workspaces/{key}/rebase", response={202: schemas.RevisionOut} | PROBLEMS)
def rebase_workspace(request, key: str):
    """Rebase the commits on the branch as it is now; the checks of the environment run once nothing conflicts.

    The operation's outcome has `merged` and `conflicts`, which are left in the files as git marks them.
    """
    operation = rebasing.rebase(find(request, key, "use_workspace"), by=request.auth.actor)
    names = ("revision", "snapshot", "created", "changed", "removed", "safety_snapshot")
    told = {"operation": str(operation.pk), "state": operation.phase}
    return Status(202, dict.fromkeys(names) | told)


def _asked(request, key, wish):
    workspace = find(request, key, "use_workspace")
    source = {name: value for name, value in wish.source().items() if value is not None}
    how = {"base": wish.base, "replace": wish.mode == "replace", "how": wish.how}
    return revisions.ask(workspace, source, by=request.auth.actor, **how)
