"""Snapshots, and the way back to one."""

from asgiref.sync import sync_to_async
from ninja import Router, Status

from dashboard.contract import PROBLEMS, AsyncBearer
from dashboard.pages import download
from workspaces import archives, effects, history, lifecycle, schemas
from workspaces.api.finding import (
    asked,
    ended_well,
    find,
    move_out,
    number_of,
    page_of,
    safety_known,
)
from workspaces.models import Snapshot

router = Router(tags=["snapshots"])


@router.post(
    "/workspaces/{key}/snapshots",
    response={201: schemas.SnapshotOut} | PROBLEMS,
    auth=AsyncBearer(),
    tags=["snapshots"],
)
async def take_snapshot(request, key: str, wish: schemas.NewSnapshot = None):
    """Take one now, with a label if you like."""
    return Status(201, await sync_to_async(_take)(request, key, wish))


def _take(request, key, wish):
    workspace = find(request, key, "use_workspace")
    effect = lifecycle.snapshot(workspace, by=request.auth.actor, label=(wish.label if wish else None) or "")
    outcome = ended_well(effects.wait(effect, 120))
    return schemas.snapshot_out(history.find_snapshot(workspace, outcome["snapshot"]))


@router.get("/workspaces/{key}/snapshots", response={200: schemas.SnapshotPage} | PROBLEMS, tags=["snapshots"])
def list_snapshots(request, key: str, cursor: str | None = None):
    """Newest first, 50 a page."""
    page, following = page_of(find(request, key).snapshots.all(), cursor)
    return Status(200, {"snapshots": [schemas.snapshot_out(snapshot) for snapshot in page], "cursor": following})


def _snapshot(request, key, number: str, verb="read") -> Snapshot:
    return history.find_snapshot(find(request, key, verb), number_of(number) or 0)


@router.get("/workspaces/{key}/snapshots/{n}", response={200: schemas.SnapshotOut} | PROBLEMS, tags=["snapshots"])
def get_snapshot(request, key: str, n: str):
    return Status(200, schemas.snapshot_out(_snapshot(request, key, n)))


@router.get("/workspaces/{key}/snapshots/{n}/manifest", response={200: dict} | PROBLEMS, tags=["snapshots"])
def manifest(request, key: str, n: str):
    """The provenance record, with its SHA-256 over the RFC 8785 bytes of the body."""
    found = _snapshot(request, key, n)
    return Status(200, found.manifest.body | {"sha256": found.manifest.sha256})


@router.get("/workspaces/{key}/snapshots/{n}/archive", response={200: None} | PROBLEMS, tags=["snapshots"])
def archive(request, key: str, n: str):
    """The files as .tar.zst: at once if it was made ready before (POST), else written while it is sent."""
    snapshot = _snapshot(request, key, n)
    name = f"{snapshot.workspace.key}-{snapshot.number}.tar.zst"
    return download(request, archives.read(snapshot), name, "application/zstd")


@router.post("/workspaces/{key}/snapshots/{n}/archive", response={202: schemas.MoveOut} | PROBLEMS, tags=["snapshots"])
def make_archive(request, key: str, n: str):
    """Make the archive ready, so that it is sent at once for an hour; how far it is: GET …/moves/{move_id}."""
    snapshot = _snapshot(request, key, n, "use_workspace")
    return Status(202, move_out(archives.ask(snapshot, by=request.auth.actor)))


@router.post(
    "/workspaces/{key}/snapshots/{n}/restore",
    response={202: schemas.RestoreOut | schemas.AskedOut} | PROBLEMS,
    auth=AsyncBearer(),
    tags=["snapshots"],
)
async def restore(request, key: str, n: str, wish: schemas.NewRestore = None):
    """Put the files (or some paths) back; what is there now is saved first, as `safety_snapshot`."""
    paths = wish.paths if wish else None
    effect, waiting = await sync_to_async(_restore)(request, key, n, paths)
    return Status(202, waiting or await safety_known(effect))


def _restore(request, key, n, paths):
    workspace = find(request, key, "restore")
    number = history.find_snapshot(workspace, number_of(n) or 0).number
    wish = {"snapshot": number} | ({"paths": paths} if paths else {})
    if waiting := asked(request, workspace, "restore", wish):
        return None, waiting
    return lifecycle.restore(workspace, number, by=request.auth.actor, paths=paths), None


@router.post("/workspaces/{key}/snapshots/{n}/pin", response={202: schemas.SnapshotOut} | PROBLEMS, tags=["snapshots"])
def pin(request, key: str, n: str):
    """A pinned snapshot stays, whatever retention says."""
    return Status(202, _pin(request, key, n, True))


@router.delete(
    "/workspaces/{key}/snapshots/{n}/pin", response={202: schemas.SnapshotOut} | PROBLEMS, tags=["snapshots"]
)
def unpin(request, key: str, n: str):
    return Status(202, _pin(request, key, n, False))


def _pin(request, key, n, pinned):
    snapshot = _snapshot(request, key, n, "use_workspace")
    lifecycle.pin(snapshot, pinned, by=request.auth.actor)
    return schemas.snapshot_out(snapshot)
