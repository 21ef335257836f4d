"""Archives of snapshots for download: written by the runner with progress, and kept as long as retention says.

With HANDRAIL_BUCKET they are there, for the web of any host.
"""

import os
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

from django.conf import settings

from dashboard.files.atomic_write import move_into_place
from dashboard.keys.key_files import make_private
from dashboard.models import Actor
from workspaces import operations
from workspaces.changes import downloads, guarded, history
from workspaces.host import shared_files
from workspaces.models import Operation, Snapshot

KIND = "archive"
_PIECE = 1024 * 1024


def folder() -> Path:
    """Return the folder that has one of each workspace."""
    return settings.HANDRAIL_HOME / "archives"


def folder_of(workspace_id) -> Path:
    return folder() / str(workspace_id)


def _path(snapshot: Snapshot) -> Path:
    return folder_of(snapshot.workspace_id) / f"{snapshot.pk}.tar.zst"


def ask(snapshot: Snapshot, *, by: Actor) -> Operation:
    """Submit an operation that writes the archive, or return the one in progress."""
    for operation in Operation.objects.open().filter(workspace=snapshot.workspace, kind=KIND, cancelled_at=None):
        if operation.args["number"] == snapshot.number:
            return operation
    return operations.submit(KIND, workspace=snapshot.workspace, by=by, args={"number": snapshot.number})


def write(snapshot: Snapshot, watch: dict) -> int:
    """Write the archive atomically and return its size in bytes. `watch`: keyword arguments of Store.archive."""
    path = _path(snapshot)
    make_private(path.parent)
    fresh = path.with_suffix(f".{os.urandom(8).hex()}")
    try:
        with open(fresh, "xb", opener=lambda path, flags: os.open(path, flags, 0o600)) as out:
            history.store_of(snapshot.workspace).archive(snapshot.tree_hex, out, **watch)
        size = fresh.stat().st_size
        move_into_place(fresh, path)  # readers take a file at `path` for complete
        shared_files.keep(path, snapshot.workspace.team_id)
    finally:
        fresh.unlink(missing_ok=True)
    return size


def read(snapshot: Snapshot) -> Iterator[bytes]:
    """Return an iterator over the archive's bytes: the file that was written, else written while it is read.

    Problem 403 for an agent if it holds secrets.
    """
    guarded.refuse_secrets_in(history.store_of(snapshot.workspace), snapshot.tree_hex)
    pieces = _pieces(_path(snapshot))
    try:
        first = next(pieces)
    except FileNotFoundError:
        return downloads.archive(snapshot)
    return chain([first], pieces)


def _pieces(path: Path) -> Iterator[bytes]:
    with shared_files.opened(path) as file:
        while piece := file.read(_PIECE):
            yield piece


def forget(workspace_id, snapshot_id):
    """Delete the archive of a snapshot, if one was written. Raise StoreError."""
    shared_files.remove(folder_of(workspace_id) / f"{snapshot_id}.tar.zst")


def forget_all(workspace_id):
    """Delete the archives of all snapshots of a workspace. Raise StoreError."""
    shared_files.remove_folder(folder_of(workspace_id))
