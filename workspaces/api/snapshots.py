"""Snapshots: take, list, read, archive, restore and pin."""

from base64 import b64decode

from asgiref.sync import sync_to_async
from django.http import HttpResponse
from ninja import Router, Status

from dashboard.problems import not_found
from dashboard.web.api_base import PROBLEMS, AsyncBearer
from dashboard.web.lookup import page_of
from dashboard.web.pages import download
from workspaces import lifecycle, operations
from workspaces.api import answers, schemas
from workspaces.api.lookup import answered, ended_well, find, number_of, operation_out, safety_known
from workspaces.changes import history
from workspaces.manifests import keep
from workspaces.models import Snapshot
from workspaces.services import archives, snapshot_folders
from workspaces.services.retention import snapshot_trash

router = Router(tags=["snapshots"])


@router.post(
    "/workspaces/{key}/snapshots",
    response={201: schemas.SnapshotOut} | PROBLEMS,
    auth=AsyncBearer(),
    tags=["snapshots"],
)
async def take_snapshot(request, key: str, wish: schemas.NewSnapshot = None):
    """Take a snapshot now, with an optional label."""
    return Status(201, await sync_to_async(_take)(request, key, wish))


def _take(request, key, wish):
    workspace = find(request, key, "use_workspace")
    operation = lifecycle.snapshot(workspace, by=request.auth.actor, label=(wish.label if wish else None) or "")
    outcome = ended_well(operations.wait(operation, 120))
    return answers.snapshot_out(history.find_snapshot(workspace, outcome["snapshot"]))


@router.get("/workspaces/{key}/snapshots", response={200: schemas.SnapshotPage} | PROBLEMS, tags=["snapshots"])
def list_snapshots(request, key: str, cursor: str | None = None):
    """List snapshots, newest first, 50 per page."""
    page = page_of(find(request, key).snapshots.all(), cursor)
    return Status(200, {"snapshots": [answers.snapshot_out(snapshot) for snapshot in page.rows], "cursor": page.cursor})


def _snapshot(request, key, number: str, verb="read") -> Snapshot:
    return history.find_snapshot(find(request, key, verb), number_of(number) or 0)


@router.get("/workspaces/{key}/snapshots/{n}", response={200: schemas.SnapshotOut} | PROBLEMS, tags=["snapshots"])
def get_snapshot(request, key: str, n: str):
    """Return a snapshot."""
    return Status(200, answers.snapshot_out(_snapshot(request, key, n)))


@router.delete("/workspaces/{key}/snapshots/{n}", response={202: schemas.SnapshotOut} | PROBLEMS, tags=["snapshots"])
def trash(request, key: str, n: str):
    """Move a snapshot to the trash, from which it can be restored for some days."""
    snapshot = _snapshot(request, key, n, "delete_snapshot")
    snapshot_trash.trash(snapshot, by=request.auth.actor)
    return Status(202, answers.snapshot_out(snapshot))


@router.post(
    "/workspaces/{key}/snapshots/{n}/untrash", response={202: schemas.SnapshotOut} | PROBLEMS, tags=["snapshots"]
)
def untrash(request, key: str, n: str):
    """Restore a snapshot from the trash, and pin it."""
    snapshot = _snapshot(request, key, n, "delete_snapshot")
    snapshot_trash.untrash(snapshot, by=request.auth.actor)
    return Status(202, answers.snapshot_out(snapshot))


@router.get("/workspaces/{key}/snapshots/{n}/manifest", response={200: dict} | PROBLEMS, tags=["snapshots"])
def manifest(request, key: str, n: str):
    """Return the provenance record, with the SHA-256 of its RFC 8785 canonical JSON and its signature."""
    found = getattr(_snapshot(request, key, n), "manifest", None)
    if found is None:
        raise not_found("manifest")
    return Status(200, keep.download_of(found))


@router.get("/workspaces/{key}/snapshots/{n}/archive", response={200: None} | PROBLEMS, tags=["snapshots"])
def archive(request, key: str, n: str):
    """Return the files as .tar.zst: from the archive if one was prepared (POST), else written while it is sent."""
    snapshot = _snapshot(request, key, n)
    name = f"{snapshot.workspace.key}-{snapshot.number}.tar.zst"
    return download(request, archives.read(snapshot), name, "application/zstd")


@router.post(
    "/workspaces/{key}/snapshots/{n}/archive", response={202: schemas.OperationOut} | PROBLEMS, tags=["snapshots"]
)
def make_archive(request, key: str, n: str):
    """Prepare the archive; GET …/operations/{operation_id} returns the progress."""
    snapshot = _snapshot(request, key, n, "use_workspace")
    return Status(202, operation_out(archives.ask(snapshot, by=request.auth.actor)))


@router.get("/workspaces/{key}/snapshots/{n}/folder", response={200: schemas.SnapshotFolderOut} | PROBLEMS)
def get_folder(request, key: str, n: str):
    """Say whether a snapshot is open as a folder on its workspace's host, and where."""
    return Status(200, snapshot_folders.folder_of(_snapshot(request, key, n)))


@router.post("/workspaces/{key}/snapshots/{n}/folder", response={201: schemas.OpenFolder} | PROBLEMS)
def open_folder(request, key: str, n: str, wish: schemas.NewSnapshotFolder = None):
    """Open a snapshot as a read-only folder on its workspace's host, or keep it open for longer. For people."""
    minutes = wish.minutes if wish else snapshot_folders.MINUTES
    return Status(201, snapshot_folders.open_folder(_snapshot(request, key, n), by=request.auth.actor, minutes=minutes))


@router.delete("/workspaces/{key}/snapshots/{n}/folder", response={204: None} | PROBLEMS)
def close_folder(request, key: str, n: str):
    """Close the folder. Programs that still read files in it get errors."""
    snapshot_folders.close_folder(_snapshot(request, key, n), by=request.auth.actor)
    return Status(204, None)


@router.post(
    "/workspaces/{key}/snapshots/{n}/restore",
    response={202: schemas.RestoreOut | schemas.AskedOut} | PROBLEMS,
    auth=AsyncBearer(),
    tags=["snapshots"],
)
async def restore(request, key: str, n: str, wish: schemas.NewRestore = None):
    """Restore the files, or some paths; the current files are saved first, as `safety_snapshot`."""
    paths = [*(wish.paths or ()), *map(b64decode, wish.paths_b64 or ())] if wish else []
    operation = await answered(request, _restore, key, n, paths)
    return operation if isinstance(operation, HttpResponse) else Status(202, await safety_known(operation))


def _restore(request, key, n, paths):
    workspace = find(request, key, "restore")
    return lifecycle.restore(workspace, number_of(n) or 0, by=request.auth.actor, paths=paths or None)


@router.post("/workspaces/{key}/snapshots/{n}/pin", response={202: schemas.SnapshotOut} | PROBLEMS, tags=["snapshots"])
def pin(request, key: str, n: str):
    """Pin a snapshot: retention never deletes it."""
    return Status(202, _pin(request, key, n, True))


@router.delete(
    "/workspaces/{key}/snapshots/{n}/pin",
    response={202: schemas.SnapshotOut | schemas.AskedOut} | PROBLEMS,
    tags=["snapshots"],
)
def unpin(request, key: str, n: str):
    """Unpin a snapshot. For an agent in a connected folder, a person decides first."""
    return Status(202, _pin(request, key, n, False))


def _pin(request, key, n, pinned):
    snapshot = _snapshot(request, key, n, "use_workspace")
    lifecycle.pin(snapshot, pinned, by=request.auth.actor)
    return answers.snapshot_out(snapshot)
