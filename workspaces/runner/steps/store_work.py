"""What the three operations on a team's store share. They have a team and no workspace."""

import asyncio
import time

from workspaces import operations
from workspaces.changes import stores
from workspaces.host import team_stores
from workspaces.models import Artifact, HomeLayer, Rehearsal, Snapshot
from workspaces.runner.job import PROGRESS_INTERVAL_S, Job, Kind
from workspaces.services import source_trees, store_maintenance
from workspaces.store import StoreError
from workspaces.store.blobs import Blobs


class StoreKind(Kind):
    """A task on a team's store. One at a time on this host, since each reads much of the disk.

    Performing it again after a crash is safe: the store's own writes are atomic.
    """

    when_cancelled = "Nothing was changed."
    when_store_fails = "Failed: "
    opens_store = True  # refuse a store that cannot be opened

    async def perform(self, job):
        async with job.daemon.store_lock:
            await job.mark_started()
            try:
                return await job.thread(self._carry_out, job)
            except asyncio.CancelledError:
                job.cancel.set()  # the runner stops; the next one continues
                raise

    def _carry_out(self, job) -> dict:
        operation = job.operation
        try:
            stores.opened(operation.team_id)
        except stores.NoStore:
            return {"ok": True, "empty": True}
        except stores.WrongStore:
            raise
        except StoreError:
            if self.opens_store:
                raise
        try:
            return {"ok": True} | self.work(operation, team_stores.blobs_of(operation.team_id), options_of(job))
        except OSError as error:
            raise StoreError(str(error)) from error

    def work(self, operation, blobs: Blobs, options: dict) -> dict:
        """Carry out the task on the store at `blobs` and return the outcome.

        `options` are {progress, cancel} for methods of Store.
        """
        raise NotImplementedError

    def finish(self, job, outcome):
        store_maintenance.finish(job.operation, outcome)


def options_of(job: Job) -> dict:
    last = time.monotonic()

    def report(progress):
        nonlocal last
        if time.monotonic() - last > PROGRESS_INTERVAL_S:
            last = time.monotonic()
            done = {"done": progress.entries, "bytes": progress.bytes, "total_bytes": progress.total_bytes}
            operations.record_progress(job.operation, done)

    return {"progress": report, "cancel": job.cancel}


def snapshots_of(team_id) -> dict[str, list]:
    """Return {tree id: [(workspace key, snapshot number)]} of the team's snapshots."""
    found: dict[str, list] = {}
    for tree, key, number in Snapshot.objects.filter(workspace__team=team_id).values_list(
        "tree", "workspace__key", "number"
    ):
        found.setdefault(bytes(tree).hex(), []).append((key, number))
    return found


def needed_trees(team_id) -> set[str]:
    """Return the ids of the trees that snapshots, rehearsals, artifacts, environments and sources of the team need."""
    snapshots = Snapshot.objects.filter(workspace__team=team_id).values_list("tree", flat=True)
    rehearsed = Rehearsal.objects.filter(workspace__team=team_id).keeping_trees().values_list("base", "tree")
    sources = map(bytes.fromhex, source_trees.of_team(team_id))
    artifacts = [*Artifact.objects.trees_of(team_id), *HomeLayer.objects.trees_of(team_id)]
    return {
        bytes(tree).hex() for tree in [*snapshots, *(tree for pair in rehearsed for tree in pair), *artifacts, *sources]
    }
