"""How a workspace lives: kept awake, proven, kept as found, set up again, its runs and its size."""

from datetime import datetime

from ninja import Router, Status

from dashboard.contract import PROBLEMS
from workspaces import capacity, environments, history, idle, proofs, schemas
from workspaces.api.finding import find, shown
from workspaces.models import Run

router = Router(tags=["workspaces"])
RUNS = 50


class AwakeUntil(schemas.Strict):
    until: datetime | None = None


@router.put("/workspaces/{key}/awake", response={200: schemas.WorkspaceOut} | PROBLEMS)
def keep_awake(request, key: str, wish: AwakeUntil):
    """Do not sleep before `until` (within a week); null takes it back. A sleeping one wakes."""
    workspace = find(request, key, "use_workspace")
    idle.keep_awake(workspace, wish.until, by=request.auth.actor)
    return Status(200, shown(workspace))


@router.post("/workspaces/{key}/prove", response={202: schemas.WorkspaceOut} | PROBLEMS)
def prove(request, key: str):
    """Compare every byte of one that is asleep or stopped with its newest snapshot; `proof` then says how it went."""
    workspace = find(request, key, "use_workspace")
    proofs.prove(workspace, by=request.auth.actor)
    return Status(202, shown(workspace))


@router.post("/workspaces/{key}/keep", response={202: schemas.WorkspaceOut} | PROBLEMS)
def keep(request, key: str):
    """After a proof that did not hold: what is there is right, and becomes a snapshot."""
    workspace = find(request, key, "restore")
    proofs.keep_found(workspace, by=request.auth.actor)
    return Status(202, shown(workspace))


@router.post("/workspaces/{key}/renew", response={202: schemas.WorkspaceOut} | PROBLEMS)
def renew(request, key: str):
    """The newest version of its environment on the files that are there: its set-up runs again; saved first."""
    workspace = find(request, key, "manage_environments")
    environments.renew(workspace, by=request.auth.actor)
    return Status(202, shown(workspace))


@router.post("/workspaces/{key}/renew/undo", response={202: schemas.WorkspaceOut} | PROBLEMS)
def undo_renewal(request, key: str):
    """Back to the files and the version from before the last renewal; what is there now is saved first."""
    workspace = find(request, key, "manage_environments")
    environments.undo_renewal(workspace, environments.last_renewal(workspace), by=request.auth.actor)
    return Status(202, shown(workspace))


@router.get("/workspaces/{key}/runs", response={200: dict} | PROBLEMS)
def runs(request, key: str):
    """The last periods in which it was up, newest first, each with the manifest of its resume."""
    rows = Run.objects.filter(workspace=find(request, key)).select_related("manifest").order_by("-started_at")[:RUNS]
    return Status(200, {"runs": [_run_out(run) for run in rows]})


def _run_out(run) -> dict:
    manifest = getattr(run, "manifest", None)
    names = ("started_at", "ready_at", "ended_at", "end_reason", "proof_entries", "proof_differ")
    told = {name: getattr(run, name) for name in names}
    return told | {"id": str(run.pk), "manifest": manifest and manifest.body | {"sha256": manifest.sha256}}


@router.get("/workspaces/{key}/size", response={200: dict} | PROBLEMS)
def size(request, key: str):
    """What it uses on disk, the limit (null: none), and what is big in it now, largest first."""
    workspace = find(request, key)
    largest = [history.named("path", path) | {"bytes": size} for path, size in history.largest(workspace)]
    measured = workspace.vitals.get("bytes")
    return Status(200, {"bytes": measured, "limit": capacity.size_limit(workspace) or None, "largest": largest})
