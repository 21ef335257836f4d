"""The team's store: what it takes, whether it is sound, and the work on it."""

from typing import Literal

from ninja import Router, Status

from dashboard.contract import PROBLEMS
from dashboard.problems import not_allowed
from workspaces import schemas, upkeep
from workspaces.api.finding import team_of
from workspaces.models import Upkeep

router = Router(tags=["storage"])
WorkName = Literal["check", "collect", "repair"]


class NewWork(schemas.Strict):
    full: bool = False


def _team(request, verb: str):
    """For people alone: an agent has no business with what others keep."""
    team = team_of(request)
    if not request.auth.is_person or not request.auth.can(verb, team):
        raise not_allowed("Your role does not allow that here.")
    return team


@router.get("/storage", response={200: dict} | PROBLEMS)
def storage(request):
    """The bytes that go with each workspace as last weighed, and each kind of work: under way, or how it ended."""
    team = _team(request, "read")
    weighed = [{"key": w.key, "snapshots": count, "frees": size} for w, count, size in upkeep.weights(team)]
    work = {row.work: _shown(row) for row in Upkeep.objects.filter(team=team)}
    return Status(200, {"workspaces": weighed, "work": work})


def _shown(row: Upkeep) -> dict:
    fields = ("full", "progress", "ok", "asked_at", "started_at", "ended_at", "cancelled_at")
    outcome = {name: found for name, found in (row.outcome or {}).items() if name not in ("workspaces", "snapshots")}
    return {name: getattr(row, name) for name in fields} | {"outcome": outcome}


@router.post("/storage/{work}", response={202: dict} | PROBLEMS)
def ask(request, work: WorkName, wish: NewWork = None):
    """Check it (every byte with `full`), free what no snapshot needs (`collect`), or make its index anew (`repair`)."""
    team = _team(request, "manage_retention")
    full = bool(wish and wish.full and work == "check")
    return Status(202, _shown(upkeep.ask(team, work, by=request.auth.actor, full=full)))


@router.post("/storage/{work}/stop", response={202: dict} | PROBLEMS)
def stop(request, work: WorkName):
    """Ask it to end; what it has not done by then it leaves as it was."""
    return Status(202, _shown(upkeep.stop(_team(request, "manage_retention"), work, by=request.auth.actor)))
