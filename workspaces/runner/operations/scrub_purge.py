"""Remove a value from all that a team keeps."""

from dashboard.models import Event
from workspaces.changes import stores
from workspaces.host import team_stores
from workspaces.runner.scrub import live_files
from workspaces.runner.scrub_elsewhere import on_other_hosts
from workspaces.runner.steps.given_value import WithValue, tick_of
from workspaces.runner.steps.store_work import needed_trees
from workspaces.services.scrub import asking, places, purging, receipts
from workspaces.store import Store, StoreError


class ScrubPurge(WithValue):
    """Remove the value, and write the receipt. Stopped or killed, what was removed stays removed, without a receipt."""

    async def work(self, job, team, wanted):
        tick, args = tick_of(job), job.args
        how = {"snapshots": args["snapshots"], "past_holds": args["past_holds"], "by": job.by, "tick": tick}
        done = await job.thread(purging.purge, team, wanted, **how)
        live, unread = await live_files(job.daemon, team, wanted, lambda: tick("files", done.total))
        done.kept += live
        more, elsewhere = await on_other_hosts(job, team, wanted, purge=True, tick=lambda: tick("files", done.total))
        for place in places.without_twins(done.removed + done.kept, more):
            done.add(place)
        done.not_searched += unread + elsewhere
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


def _collect(team, done: purging.Purged):
    """Remove the deleted snapshots' contents from the store, and write its packs anew without them."""
    try:
        store: Store = stores.opened(team.pk)
        since, needed = team_stores.now(), needed_trees(team.pk)
        for tree in set(done.trees) - needed:
            store.release(tree)
        collected = store.gc(lambda: needed_trees(team.pk), since=since, rewrite=True)
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
