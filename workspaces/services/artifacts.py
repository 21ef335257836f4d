"""Artifacts: keep chosen files of a snapshot after it, download them, delete them."""

from collections.abc import Iterator
from datetime import timedelta
from urllib.parse import quote_from_bytes, unquote_to_bytes

from django.db import transaction

from dashboard.database import clock
from dashboard.models import Actor
from dashboard.problems import conflict, invalid, not_found
from workspaces import operations
from workspaces.changes import guarded, history, stores
from workspaces.lifecycle.carried import NAME
from workspaces.lifecycle.states import must_not_be_trashed
from workspaces.models import Artifact, Operation, Workspace
from workspaces.services import zips
from workspaces.services.retention import holds
from workspaces.services.retention.layers.artifacts import remove
from workspaces.store import StoreError
from workspaces.store.safe_open import BadPath, split_path

KIND = "promote"
MAX_PATHS = 500
MAX_NOTE = 2000  # characters
MAX_DAYS = 3650


def promote(
    workspace: Workspace,
    name: str,
    paths: list[bytes],
    *,
    number: int | None = None,
    note: str = "",
    days: int | None = None,
    by: Actor,
) -> tuple[Artifact, Operation]:
    """Keep files and folders of a snapshot, by default the newest, as an artifact. Problem 404, 409, 422.

    `days`: after which it is deleted; None keeps it as the team's retention says. Return it with the operation that
    puts its files together.
    """
    _check(name, note, days)
    snapshot = history.find_snapshot(workspace, number) if number else workspace.head
    if snapshot is None:
        raise conflict(f"{workspace.key} has no snapshot yet. Take one first.")
    must_not_be_trashed(snapshot)
    chosen = _chosen(workspace, snapshot, paths)
    now = clock.now()
    with transaction.atomic():
        made = Artifact.objects.create(
            team_id=workspace.team_id,
            workspace=workspace,
            key=workspace.key,
            repository=workspace.remote,
            snapshot_number=snapshot.number,
            name=name,
            note=note.strip().replace("\0", "␀"),
            paths=[quote_from_bytes(path) for path in chosen],
            by=by.as_json,
            created_at=now,
            expires_at=now + timedelta(days=days) if days is not None else None,
        )
        args = {"artifact": str(made.pk), "number": snapshot.number, "paths": made.paths}
        operation = operations.submit(KIND, workspace=workspace, args=args, by=by)
    return made, operation


def _check(name: str, note: str, days: int | None):
    if not NAME.fullmatch(name):
        raise invalid("A name has letters, digits, dots, dashes and underscores, begins with a letter or digit.")
    if len(note) > MAX_NOTE:
        raise invalid(f"A note can have at most {MAX_NOTE:,} characters.")
    if days is not None and not 1 <= days <= MAX_DAYS:
        raise invalid(f"days must be from 1 to {MAX_DAYS:,}.")


def _chosen(workspace, snapshot, paths: list[bytes]) -> list[bytes]:
    """Return the paths, each once. Problem 404 for one that is not there, 422 if two have the same last name."""
    try:
        chosen = list(dict.fromkeys(b"/".join(split_path(path.strip(b"/"))) for path in paths))
    except BadPath:
        raise not_found(f"file in snapshot {snapshot.number}") from None
    if not 0 < len(chosen) <= MAX_PATHS or not all(chosen):
        raise invalid(f"Name 1 to {MAX_PATHS} files or folders.")
    names = [path.rpartition(b"/")[2] for path in chosen]
    if len(set(names)) < len(names):
        raise invalid("Two of them have the same name. Choose the folder that they are in, or keep them one by one.")
    store = history.store_of(workspace)
    for path in chosen:
        guarded.refuse_secret(path)
        try:
            kind = store.entry(snapshot.tree_hex, path).type
        except StoreError:
            raise not_found(f"file in snapshot {snapshot.number}") from None
        if kind not in ("file", "folder"):
            raise invalid("Only files and folders can be kept as an artifact.")
        guarded.refuse_linked(store, snapshot.tree_hex, path)
    return chosen


def zip_of(artifact: Artifact) -> Iterator[bytes]:
    """Return the bytes of a zip of its files. Problem 409 if it is still being created, 503 without a store."""
    if not artifact.tree:
        raise conflict("It is being created. Try again in a moment.")
    came_from = [unquote_to_bytes(path) for path in artifact.paths]
    return zips.of_tree(stores.opened(artifact.team_id), artifact.tree_hex, came_from)


def delete(artifact: Artifact, *, by: Actor):
    """Delete it; the store's next collection frees the bytes. Problem 409 if its workspace or team is on hold."""
    with transaction.atomic():
        holds.lock(artifact.team_id)
        if held := holds.Held(artifact.team, clock.now()).on_workspace(artifact.workspace_id):
            raise conflict(f"{artifact.name} is on hold: {held.reason}")
        remove(artifact, by=by)
