"""Repair a team's store."""

from workspaces.runner.steps.store_work import StoreKind, snapshots_of
from workspaces.store import Store
from workspaces.store.index.rebuild import reindex
from workspaces.store.progress import Watch


class StoreRepair(StoreKind):
    """Rebuild head and index from the intact objects, so that damaged ones are stored again from live files."""

    opens_store = False

    def work(self, operation, blobs, options):
        done = reindex(blobs, Watch(options["progress"], options["cancel"]))
        held = set(snapshots_of(operation.team_id))
        store = Store.open(blobs)
        lost = [tree for tree in held if not store.catalog.holds(bytes.fromhex(tree))]
        return {"objects": done.objects, "dropped": done.dropped, "snapshots": len(held), "lost": len(lost)}
