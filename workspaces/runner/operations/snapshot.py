"""Take a snapshot on request."""

from workspaces import lifecycle
from workspaces.models import Snapshot, Workspace
from workspaces.runner.job import Kind
from workspaces.services import periodic_snapshots


class TakeSnapshot(Kind):
    """Snapshot the live tree."""

    when_store_fails = "The snapshot could not be kept: "

    async def perform(self, job):
        await job.refresh()
        await job.mark_started()
        # A periodic snapshot does not trust file times, so it finds changes that others may have missed.
        thorough = job.args["kind"] == periodic_snapshots.KIND
        how = {"thorough": thorough, "unless_same": job.args.get("unless_same", False)}
        taken = await take_now(job, job.args["kind"], job.args.get("label", ""), **how)
        return {"ok": True, "snapshot": taken.number}

    async def recover(self, job):
        """Return the snapshot committed before the crash, or take one now."""
        await job.refresh()
        made = await job.thread(snapshot_made_since, job, job.args["kind"], job.args.get("label", ""))
        return {"ok": True, "snapshot": made.number} if made else await self.perform(job)

    def finish(self, job, outcome):
        if outcome["ok"] and job.args["kind"] == "kept":
            proof = job.workspace.proof | {"answered": outcome["snapshot"]}
            Workspace.objects.filter(pk=job.workspace.pk).update(alarm={}, proof=proof)
            lifecycle.record(job.workspace, job.by, "workspace.found_kept", {"snapshot": outcome["snapshot"]})


async def take_now(job, kind: str, label: str, **how) -> Snapshot:
    """Snapshot the live tree of a started operation that can be cancelled; `how` as for `snapshots.take`."""
    async with job.lock(), job.open_tree(read=not job.workspace.missing_snapshot):
        await job.recover_tree()
        return await job.snapshot(kind, label, **how, **job.watch())


def snapshot_made_since(job, kind: str, label: str) -> Snapshot | None:
    """Return the snapshot that the operation took before the runner died; None if it took none."""
    since = job.operation.started_at or job.operation.created_at
    rows = Snapshot.objects.filter(workspace=job.workspace, kind=kind, label=label, created_at__gte=since)
    return rows.order_by("number").first()
