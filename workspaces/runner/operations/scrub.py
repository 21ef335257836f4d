"""Search all that a team keeps for a value, and purge it. The value is in the runner's memory, and nowhere else."""

import time

from dashboard.models import Event, Team
from workspaces import operations
from workspaces.changes import stores
from workspaces.models import ReasonCode
from workspaces.runner.job import PROGRESS_INTERVAL_S, Kind
from workspaces.runner.operations.store import needed_trees
from workspaces.runner.refusals import Refused
from workspaces.runner.scrub import live_files
from workspaces.services.scrub import asking, places, purging, receipts
from workspaces.services.scrub.search import search
from workspaces.services.scrub.value import Wanted
from workspaces.store import Store, StoreError

VALUE_IS_GONE = "Handrail was restarted meanwhile, and the value is stored nowhere. Start again."


class _WithValue(Kind):
    """Work with a value that was given with the operation; after a crash it ends, since the value is gone."""

    async def perform(self, job):
        value = job.daemon.values.pop(job.operation.pk, None)
        if value is None:
            raise Refused(VALUE_IS_GONE, ReasonCode.LOST)
        await job.mark_started()
        team = await job.thread(Team.objects.get, pk=job.operation.team_id)
        return await self.work(job, team, Wanted(value))

    async def work(self, job, team, wanted: Wanted) -> dict:
        raise NotImplementedError


class Scrub(_WithValue):
    """Find the places that hold the value."""

    when_cancelled = "Stopped; nothing was changed."

    async def work(self, job, team, wanted):
        tick = _tick(job)
        found, not_searched = await job.thread(search, team, wanted, tick)
        live, unread = await live_files(job.daemon, team, wanted, lambda: tick("files", len(found)))
        return {"ok": True} | places.outcome(found + live, not_searched + unread)

    def finish(self, job, outcome):
        asking.forget_old(job.operation.team)


class PurgeValue(_WithValue):
    """Remove the value, and write the receipt. Stopped or killed, what was removed stays removed, without a receipt."""

    async def work(self, job, team, wanted):
        tick, args = _tick(job), job.args
        how = {"snapshots": args["snapshots"], "past_holds": args["past_holds"], "by": job.by, "tick": tick}
        done = await job.thread(purging.purge, team, wanted, **how)
        live, unread = await live_files(job.daemon, team, wanted, lambda: tick("files", done.total))
        done.kept += live
        done.not_searched += unread
        if done.trees:
            async with job.daemon.store_lock:
                await job.thread(_collect, team, done)
        if words := await job.thread(purging.flush_database):
            done.not_searched.append(words)
        job.purged = done
        return {"ok": True, "removed": len(done.removed), "kept": len(done.kept), "store": done.freed}

    def finish(self, job, outcome):
        team, args = job.operation.team, job.args
        if not outcome["ok"]:
            data = {"reason": outcome.get("reason", ""), "keyed_hash": args["keyed_hash"]}
            Event.objects.record(team, actor=job.by, verb="data.purge_failed", subject=team, data=data)
            return
        about = {"about": args.get("about", "a value"), "fingerprint": args["keyed_hash"], "reason": args["reason"]}
        receipt = receipts.write(team, job.purged, **about, by=job.by, asked_at=job.operation.created_at)
        outcome["receipt"] = str(receipt.pk)
        asking.forget_old(team)


def _tick(job):
    """Return a function that saves what is searched now and then, and raises Refused once the job is cancelled."""
    last = time.monotonic()

    def tick(step: str, found: int):
        nonlocal last
        if job.cancel.is_set():
            raise Refused("Stopped. What was removed before stays removed.", ReasonCode.CANCELLED)
        if time.monotonic() - last > PROGRESS_INTERVAL_S:
            last = time.monotonic()
            operations.record_progress(job.operation, {"step": step, "found": found})

    return tick


def _collect(team, done: purging.Purged):
    """Remove the deleted snapshots' contents from the store, and write its packs anew without them."""
    try:
        store: Store = stores.opened(team.pk)
        since, needed = time.time(), needed_trees(team.pk)
        for tree in set(done.trees) - needed:
            store.release(tree)
        collected = store.gc(needed, since=since, rewrite=True)
    except (StoreError, OSError) as error:
        done.freed = {"failed": str(error)}
        return
    store.catalog.refresh()
    left = sum(store.catalog.holds(content) for content in done.contents)
    done.freed = {
        "freed_bytes": collected.freed_bytes,
        "removed_objects": collected.removed_objects,
        "bytes_now": collected.bytes,
        "contents_with_the_value_left": left,
    }
