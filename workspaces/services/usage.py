"""Disk usage of snapshots in the team's store, and how much deleting them would free."""

from datetime import datetime
from typing import NamedTuple

from workspaces.changes import stores
from workspaces.models import Artifact, HomeLayer, Snapshot
from workspaces.store import StoreError
from workspaces.store.gc import Forecast


class Usage(NamedTuple):
    """Bytes on disk: how many deleting a workspace's snapshots frees, and the size of the team's whole store."""

    frees: int
    store: int


def _trees(team_id, going: set) -> tuple[set[str], set[str]]:
    """Return the team's trees as (those of the snapshots in `going`, those of all others, artifacts and homes)."""
    kept, gone = set(), set()
    for pk, tree in Snapshot.objects.filter(workspace__team=team_id).values_list("pk", "tree"):
        (gone if pk in going else kept).add(bytes(tree).hex())
    for rows in (Artifact.objects, HomeLayer.objects):
        kept.update(tree.hex() for tree in rows.trees_of(team_id))
    return gone, kept


def freed(team_id, going: set) -> int | None:
    """Return the bytes that deleting these snapshots (primary keys) frees; None if the store cannot be read."""
    store = stores.usable(team_id)
    if store is None:
        return None
    try:
        return store.freed(*_trees(team_id, going))
    except StoreError:
        return None


def forecast(team_id, going: set, at: datetime) -> Forecast | None:
    """Return what a collection at `at` frees after these snapshots are deleted; None if the store cannot be read."""
    store = stores.usable(team_id)
    if store is None:
        return None
    try:
        return store.forecast(*_trees(team_id, going), at.timestamp())
    except StoreError:
        return None


def of_workspace(workspace) -> Usage | None:
    """Return what deleting the workspace permanently would free; None if the store cannot be read."""
    frees = freed(workspace.team_id, set(workspace.snapshots.values_list("pk", flat=True)))
    if frees is None:
        return None
    return Usage(frees, stores.opened(workspace.team_id).usage().bytes)
