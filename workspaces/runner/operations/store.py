"""Maintain a team's store: check it, free space, repair it. These operations have a team and no workspace."""

import asyncio
import time
from pathlib import Path

from workspaces import operations
from workspaces.changes import stores
from workspaces.host import paths
from workspaces.models import Artifact, HomeLayer, Rehearsal, Snapshot
from workspaces.runner.job import PROGRESS_INTERVAL_S, Job, Kind
from workspaces.services import source_trees, store_maintenance
from workspaces.store import Store, StoreError
from workspaces.store.index.rebuild import reindex
from workspaces.store.progress import Watch

MAX_PROBLEMS = 50  # recorded, and files recorded for each


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
            return {"ok": True} | self.work(operation, paths.store_of(operation.team_id), _options(job))
        except OSError as error:
            raise StoreError(str(error)) from error

    def work(self, operation, path: Path, options: dict) -> dict:
        """Carry out the task; `options` are {progress, cancel} for methods of Store. Return the outcome."""
        raise NotImplementedError

    def finish(self, job, outcome):
        store_maintenance.finish(job.operation, outcome)


def _options(job: Job) -> dict:
    last = time.monotonic()

    def report(progress):
        nonlocal last
        if time.monotonic() - last > PROGRESS_INTERVAL_S:
            last = time.monotonic()
            done = {"done": progress.entries, "bytes": progress.bytes, "total_bytes": progress.total_bytes}
            operations.record_progress(job.operation, done)

    return {"progress": report, "cancel": job.cancel}


class CheckStore(StoreKind):
    """Check head, index and packs; with `full` every byte."""

    def work(self, operation, path, options):
        found = Store.open(path).verify(full=operation.args["full"], **options)
        problems = [problem for problem in found.problems if not problem.harmless]
        named = _snapshots_of(operation.team_id) if problems else {}
        return {
            "ok": found.ok,
            "full": found.full,
            "objects": found.objects,
            "bytes": found.bytes,
            "count": len(problems),
            "problems": [_with_files(problem, named) for problem in problems[:MAX_PROBLEMS]],
        }


def _with_files(problem, named: dict[str, list]) -> dict:
    """Return a problem with the damaged files, each as [workspace key, snapshot number, path]."""
    hurts = [
        [key, number, path.decode(errors="replace")]
        for tree, path in problem.hurts
        for key, number in named.get(tree, ())
    ]
    return {"where": problem.where, "what": problem.what, "count": len(hurts), "hurts": hurts[:MAX_PROBLEMS]}


def _snapshots_of(team_id) -> dict[str, list]:
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


class CollectGarbage(StoreKind):
    """Delete what nothing needs any more, and measure what each workspace and snapshot alone uses."""

    def work(self, operation, path, options):
        since = time.time()
        snapshots = Snapshot.objects.filter(workspace__team=operation.team_id)
        rows = list(snapshots.values_list("pk", "workspace", "tree"))
        store = Store.open(path)
        done = store.gc(needed_trees(operation.team_id), since=since, **options)
        return {
            "freed": done.freed_bytes,
            "bytes": done.bytes,
            "workspaces": store.alone(((str(owner), bytes(tree).hex()) for _, owner, tree in rows), **options),
            "snapshots": store.alone(((str(pk), bytes(tree).hex()) for pk, _, tree in rows), **options),
        }


class RepairStore(StoreKind):
    """Rebuild head and index from the intact objects, so that damaged ones are stored again from live files."""

    opens_store = False

    def work(self, operation, path, options):
        done = reindex(path, Watch(options["progress"], options["cancel"]))
        held = set(_snapshots_of(operation.team_id))
        store = Store.open(path)
        lost = [tree for tree in held if not store.catalog.holds(bytes.fromhex(tree))]
        return {"objects": done.objects, "dropped": done.dropped, "snapshots": len(held), "lost": len(lost)}
