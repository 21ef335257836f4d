"""What snapshots take in the team's store, and what removing some of them would free."""

from typing import NamedTuple

from workspaces import places
from workspaces.models import Snapshot
from workspaces.store import Store, StoreError


class Usage(NamedTuple):
    """In bytes on disk: what removing a workspace's snapshots frees, and the whole store, which the team shares."""

    frees: int
    store: int


def freed(team_id, going: set) -> int | None:
    """What removing these snapshots (primary keys) frees while all others stay; None where nobody can tell."""
    path = places.store_of(team_id)
    if not path.exists():
        return None
    kept, gone = set(), set()
    for pk, tree in Snapshot.objects.filter(workspace__team=team_id).values_list("pk", "tree"):
        (gone if pk in going else kept).add(bytes(tree).hex())
    try:
        return Store.open(path).freed(gone, kept)
    except StoreError:
        return None


def of_workspace(workspace) -> Usage | None:
    """What deleting the workspace for good would free; None where nobody can tell."""
    frees = freed(workspace.team_id, set(workspace.snapshots.values_list("pk", flat=True)))
    if frees is None:
        return None
    return Usage(frees, Store.open(places.store_of(workspace.team_id)).usage().bytes)
