"""Keep a workspace awake, verify or rebuild it, and read its runs and its disk usage."""

from datetime import datetime

from ninja import Router, Status

from dashboard.web.api_base import PROBLEMS
from workspaces.api import schemas
from workspaces.api.lookup import find, workspace_out
from workspaces.changes import history
from workspaces.manifests.keep import download_of
from workspaces.models import Run
from workspaces.provisioning import capacity
from workspaces.services import environments, idle, integrity
from workspaces.services.environments.drift import drift_of

router = Router(tags=["workspaces"])
RUNS = 50


class AwakeUntil(schemas.Strict):
    until: datetime | None = None


@router.put("/workspaces/{key}/awake", response={200: schemas.WorkspaceOut, 202: schemas.AskedOut} | PROBLEMS)
def keep_awake(request, key: str, wish: AwakeUntil):
    """Do not pause the workspace before `until` (within a week); null cancels that. A paused one resumes."""
    workspace = find(request, key, "use_workspace")
    idle.keep_awake(workspace, wish.until, by=request.auth.actor)
    return Status(200, workspace_out(workspace))


@router.post("/workspaces/{key}/prove", response={202: schemas.WorkspaceOut} | PROBLEMS)
def compare_every_byte(request, key: str):
    """Compare every byte of a paused or stopped workspace with its newest snapshot; `proof` then has the result."""
    workspace = find(request, key, "use_workspace")
    integrity.compare_every_byte(workspace, by=request.auth.actor)
    return Status(202, workspace_out(workspace))


@router.post("/workspaces/{key}/keep", response={202: schemas.WorkspaceOut | schemas.AskedOut} | PROBLEMS)
def keep(request, key: str):
    """Accept the files that a proof found different, and take a snapshot of them."""
    workspace = find(request, key, "restore")
    integrity.keep_found(workspace, by=request.auth.actor)
    return Status(202, workspace_out(workspace))


@router.post("/workspaces/{key}/renew", response={202: schemas.WorkspaceOut} | PROBLEMS)
def rebuild(request, key: str):
    """Rebuild: run the setup of the newest version of its environment on the current files, which are saved first."""
    workspace = find(request, key, "manage_environments")
    environments.rebuild(workspace, by=request.auth.actor)
    return Status(202, workspace_out(workspace))


@router.post("/workspaces/{key}/renew/undo", response={202: schemas.WorkspaceOut} | PROBLEMS)
def undo_rebuild(request, key: str):
    """Restore the files and the version from before the last rebuild; the current files are saved first."""
    workspace = find(request, key, "manage_environments")
    environments.undo_rebuild(workspace, environments.last_rebuild(workspace), by=request.auth.actor)
    return Status(202, workspace_out(workspace))


@router.get("/workspaces/{key}/runs", response={200: dict} | PROBLEMS)
def runs(request, key: str):
    """List the last periods in which it was up, newest first, each with the manifest of its resume."""
    rows = Run.objects.filter(workspace=find(request, key)).select_related("manifest").order_by("-started_at")[:RUNS]
    return Status(200, {"runs": [_run_out(run) for run in rows]})


def _run_out(run) -> dict:
    manifest = getattr(run, "manifest", None)
    names = ("started_at", "ready_at", "ended_at", "end_reason", "end_code", "proof_entries", "proof_differ")
    told = {name: getattr(run, name) for name in names}
    return told | {"id": str(run.pk), "manifest": manifest and download_of(manifest)}


@router.get("/workspaces/{key}/drift", response={200: dict} | PROBLEMS)
def drift(request, key: str):
    """Return how it differs from its environment and from its set-up, lock files included; null if it does not."""
    found = drift_of(find(request, key))
    return Status(200, {"drift": found.as_json() if found else None})


@router.get("/workspaces/{key}/size", response={200: dict} | PROBLEMS)
def size(request, key: str):
    """Return its bytes on disk, the limit (null: none), and its largest files and folders, largest first.

    `shared`: [{id, key, bytes}], what of its bytes it shares with other workspaces, which count it in the team's sum.
    """
    workspace = find(request, key)
    largest = [history.path_fields("path", path) | {"bytes": size} for path, size in history.largest(workspace)]
    told = {"bytes": workspace.vitals.get("bytes"), "shared": workspace.vitals.get("shared", [])}
    return Status(200, told | {"limit": capacity.size_limit(workspace) or None, "largest": largest})
