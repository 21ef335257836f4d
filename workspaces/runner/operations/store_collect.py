"""Free space in a team's store."""

from workspaces.host import team_stores
from workspaces.models import Snapshot
from workspaces.runner.steps.store_work import StoreKind, needed_trees
from workspaces.store import Store


class StoreCollect(StoreKind):
    """Delete what nothing needs any more, and measure what each workspace and snapshot alone uses."""

    def work(self, operation, blobs, options):
        since = team_stores.now()
        snapshots = Snapshot.objects.filter(workspace__team=operation.team_id)
        rows = list(snapshots.values_list("pk", "workspace", "tree"))
        store = Store.open(blobs)
        done = store.gc(lambda: needed_trees(operation.team_id), since=since, **options)
        return {
            "freed": done.freed_bytes,
            "bytes": done.bytes,
            "workspaces": store.alone(((str(owner), bytes(tree).hex()) for _, owner, tree in rows), **options),
            "snapshots": store.alone(((str(pk), bytes(tree).hex()) for pk, _, tree in rows), **options),
        }
