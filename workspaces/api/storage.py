"""The team's snapshot store: disk usage, health and maintenance."""

from typing import Literal

from ninja import Router, Status

from dashboard.web.api_base import PROBLEMS
from workspaces.api import schemas
from workspaces.api.lookup import team_for
from workspaces.services import store_maintenance
from workspaces.services.store_maintenance import Round

router = Router(tags=["storage"])
WorkName = Literal["check", "collect", "repair"]


class NewWork(schemas.Strict):
    full: bool = False


@router.get("/storage", response={200: dict} | PROBLEMS)
def storage(request):
    """Return the bytes that deleting each workspace frees, as last measured, and each kind of work with its outcome."""
    team = team_for(request, "read")
    weighed = [
        {"key": w.key, "snapshots": count, "frees": size}
        for w, count, size in store_maintenance.freed_by_workspace(team)
    ]
    work = {task: _shown(found) for task, found in store_maintenance.rounds(team).items()}
    return Status(200, {"workspaces": weighed, "work": work})


def _shown(found: Round) -> dict:
    operation, large = found.operation, ("workspaces", "snapshots")
    return {
        "full": found.is_full,
        "progress": operation.progress,
        "ok": found.is_ok,
        "asked_at": operation.created_at,
        "started_at": operation.started_at,
        "ended_at": found.ended_at,
        "cancelled_at": operation.cancelled_at,
        "outcome": {name: value for name, value in found.outcome.items() if name not in large},
    }


@router.post("/storage/{work}", response={202: dict} | PROBLEMS)
def ask(request, work: WorkName, wish: NewWork = None):
    """Check the store, delete what no snapshot needs (`collect`), or rebuild its index (`repair`).

    `full` checks every byte.
    """
    team = team_for(request, "manage_retention")
    full = bool(wish and wish.full and work == "check")
    return Status(202, _shown(store_maintenance.request(team, work, by=request.auth.actor, full=full)))


@router.post("/storage/{work}/stop", response={202: dict} | PROBLEMS)
def stop(request, work: WorkName):
    """Cancel the work in progress; what is not done yet stays as it is."""
    return Status(
        202, _shown(store_maintenance.cancel(team_for(request, "manage_retention"), work, by=request.auth.actor))
    )
