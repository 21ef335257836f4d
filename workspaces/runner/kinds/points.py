"""Snapshots on request, and the way back to one."""

from django.db import transaction

from dashboard.failpoints import failpoint
from workspaces import folders, history, lifecycle, periodic
from workspaces.drivers.base import DriverError, Process
from workspaces.models import Run, Snapshot, State, Workspace
from workspaces.runner import files, snapshots
from workspaces.runner.job import Kind
from workspaces.runner.kinds.resumes import prove
from workspaces.store import Cancelled, StoreError

HOLDERS = 20  # processes named that still hold an old file open


class TakePoint(Kind):
    """Snapshot the live tree."""

    async def perform(self, job):
        await job.refresh()
        await job.started()
        try:
            async with job.lock(), job.live(read=not job.workspace.owed):
                await job.recover_tree()
                # One by time believes no file's times: it finds what others may have missed.
                thorough = job.args["kind"] == periodic.KIND
                taken = await job.snapshot(
                    job.args["kind"], job.args.get("label", ""), thorough=thorough, **job.watch()
                )
        except Cancelled:
            return {"ok": False, "cancelled": True, "reason": "It was stopped as asked. Nothing of it was kept."}
        except StoreError as error:
            return {"ok": False, "reason": f"The snapshot could not be kept: {error}"}
        return {"ok": True, "snapshot": taken.number}

    async def recover(self, job):
        """A snapshot that was committed before the crash is the one that was asked for."""
        await job.refresh()
        made = await job.thread(self._made_since, job)
        return {"ok": True, "snapshot": made.number} if made else await self.perform(job)

    def finish(self, job, outcome):
        if outcome["ok"] and job.args["kind"] == "kept":
            proof = job.workspace.proof | {"answered": outcome["snapshot"]}
            Workspace.objects.filter(pk=job.workspace.pk).update(alarm={}, proof=proof)
            lifecycle.record(job.workspace, job.by, "workspace.found_kept", {"snapshot": outcome["snapshot"]})

    def _made_since(self, job):
        since = job.effect.started_at or job.effect.created_at
        rows = Snapshot.objects.filter(workspace=job.workspace, kind=job.args["kind"], created_at__gte=since)
        return rows.filter(label=job.args.get("label", "")).order_by("number").first()


class RestorePoint(Kind):
    """Freeze, save what is there, put the snapshot's files in place, prove it, and thaw."""

    async def perform(self, job):
        workspace = await job.refresh()
        await job.started()
        owner = await job.owner() if workspace.state == State.READY else None
        async with job.lock(), job.live():
            # Frozen before the safety snapshot, so that nothing written in between is lost. What was frozen for another
            # reason stays so; after a crash of the runner that can only be ours.
            freezes = owner is not None and job.driver.capabilities.freeze and not workspace.vitals.get("frozen")
            if freezes:
                await job.driver.freeze(owner)
                failpoint("restore.frozen")
            try:
                before = await _unless_ended(job, owner, _open_files(job, owner)) if owner is not None else None
                outcome = await self._put_back(job)
                if before and outcome["ok"]:
                    outcome["holders"] = await _unless_ended(job, owner, _holders(job, owner, before)) or []
            finally:
                if freezes:
                    await _unless_ended(job, owner, job.driver.thaw(owner))
        return outcome

    async def recover(self, job):
        """The journal makes the tree the old one or the new one; then it is put back once more, from a true state."""
        await job.refresh()
        await job.recover_tree()
        return await self.perform(job)

    async def _put_back(self, job):
        workspace = job.workspace
        paths = [files.inside(path) for path in job.args["paths"]] if job.args.get("paths") else None
        try:
            target = await job.thread(history.find_snapshot, workspace, job.args["number"])
            safety = await self._saved(job, target)
            await job.progress(step="putting back", safety_snapshot=safety.number)
            failpoint("restore.saved")
            store = snapshots.store_of(workspace)
            async with job.live() as tree:
                done = await job.thread(
                    store.restore,
                    target.tree_hex,
                    tree,
                    journal=snapshots.journal_of(workspace),
                    paths=paths,
                    keep=folders.HOOK_FILES if workspace.source.get("path") else (),
                    **job.watch(),
                )
            failpoint("restore.placed")
            back, owed = await self._kept(job, f"back at {target.number}" + (" (some paths)" if paths else ""))
            failpoint("restore.back")
            async with job.live() as tree:
                proof = await job.thread(self._proof, workspace, tree, back if paths else target)
        except Cancelled:
            return {"ok": False, "cancelled": True, "reason": "It was stopped as asked. Nothing was put back."}
        except StoreError as error:
            return {"ok": False, "reason": f"Nothing was put back: {error}"}
        return {
            "ok": True,
            "snapshot": target.number,
            "safety_snapshot": safety.number,
            "created": done.created,
            "changed": done.changed,
            "removed": done.removed,
            "proof": proof,
            "owed": owed,
        }

    async def _saved(self, job, target) -> Snapshot:
        """What is there before it is put back. After a crash of the runner that is what was saved then: the tree may be
        the new one by now. Where nothing is frozen, what came since is saved as well."""
        if number := job.effect.progress.get("safety_snapshot"):
            if not job.driver.capabilities.freeze:
                await job.snapshot("safety", f"what came while it went back to {target.number}")
            return await job.thread(history.find_snapshot, job.workspace, number)
        return await job.snapshot("safety", f"before going back to {target.number}", **job.watch())

    async def _kept(self, job, label: str) -> tuple[Snapshot | None, str]:
        """The snapshot of what was put back; or words on why it is owed: the files are back all the same."""
        try:
            return await job.snapshot("restored", label), ""
        except StoreError as error:
            return None, f"The files are back, and a snapshot of them is owed: {error}."

    def _proof(self, workspace, tree, against: Snapshot | None) -> dict:
        """{} where nothing is known to be the same: of some paths, and of what could not be kept."""
        if against is None:
            return {}
        head, workspace.head = workspace.head, against
        proof = prove(workspace, tree)
        workspace.head = head
        return proof

    def finish(self, job, outcome):
        if not outcome["ok"]:
            lifecycle.record(job.workspace, job.by, "workspace.restore_failed", {"reason": outcome["reason"][:1000]})
            return
        with transaction.atomic():
            rows, proof = Workspace.objects.filter(pk=job.workspace.pk), outcome["proof"]
            rows.update(disk_generation=job.workspace.disk_generation + 1, owed=outcome["owed"])
            if proof:
                rows.update(proof=proof)
                open_run = Run.objects.filter(workspace=job.workspace, ended_at=None)
                open_run.update(proof_entries=proof["entries"], proof_differ=proof["differ"])
                if proof["differ"] or not job.args.get("paths"):  # a whole tree that is back answers what was found
                    rows.update(alarm=proof | {"found": None} if proof["differ"] else {})
            if follow := job.args.get("follow"):
                rows.update(**follow)
            names = ("snapshot", "safety_snapshot", "created", "changed", "removed", "owed")
            data = {name: outcome[name] for name in names} | {"differ": proof.get("differ")}
            lifecycle.record(job.workspace, job.by, "workspace.restored", data)


async def _unless_ended(job, owner, asked):
    """What was asked of the Run; None when it has ended meanwhile: the files are in place all the same."""
    try:
        return await asked
    except DriverError:
        if await job.driver.alive(owner):
            raise
        return None


async def _open_files(job, owner) -> list[Process]:
    """Programs with files of the tree open."""
    return [process for process in await job.driver.processes(owner, open_files=True) if process.open]


async def _holders(job, owner, before: list[Process]) -> list[dict]:
    """Programs that hold old files open, which they see as they were: a file that was replaced or removed under them is
    none of the tree any more."""
    now = {process.pid: process.open for process in await job.driver.processes(owner, open_files=True)}
    found = []
    for process in before:
        old = [path for path in process.open if path not in now.get(process.pid, process.open)]
        if old:
            found.append({"pid": process.pid, "argv": list(process.argv)[:3], "open": old[:5]})
    return found[:HOLDERS]
