"""Restore a snapshot."""

import base64
from contextlib import suppress
from functools import partial

from dashboard.models import Team
from dashboard.problems import Problem
from dashboard.workers.failpoints import failpoint
from workspaces import lifecycle, operations
from workspaces.changes import history
from workspaces.changes.comparisons import Restored
from workspaces.drivers.base import DriverError, Process
from workspaces.models import Run, Snapshot, State, Workspace
from workspaces.models.snapshots import SOME_PATHS
from workspaces.operations.needs_approval import HOOK_FILES
from workspaces.provisioning import source_history
from workspaces.runner import snapshots
from workspaces.runner.freezing import frozen_programs, unless_ended
from workspaces.runner.job import Kind
from workspaces.runner.steps.compare import compare_files
from workspaces.store import StoreError

SAFE_KINDS = ("safety", "restored")  # of snapshots that can serve as the safety snapshot of a restore
HOLDERS = 20  # processes listed that still hold an old file open


class Restore(Kind):
    """Freeze the programs, take a safety snapshot, restore the snapshot's files, compare them, and thaw."""

    when_cancelled = "Nothing was restored."
    when_store_fails = "Nothing was restored: "
    counts_git = True  # whether files of git's own count among those that changed

    async def perform(self, job):
        workspace = await job.refresh()
        await job.mark_started()
        owner = await job.owner() if workspace.state == State.READY else None
        async with job.lock(), job.open_tree():
            # Frozen before the safety snapshot, so that nothing written in between is lost.
            async with frozen_programs(job, owner):
                before = await unless_ended(job, owner, _open_files(job, owner)) if owner is not None else None
                outcome = await self._put_back(job)
                if before:
                    with suppress(DriverError):  # the files are restored, whether or not their readers can be listed
                        outcome["holders"] = await unless_ended(job, owner, _holders(job, owner, before)) or []
        return outcome

    async def recover(self, job):
        """Complete or undo the interrupted swap from its journal, then restore once more."""
        await job.refresh()
        await job.recover_tree()
        return await self.perform(job)

    async def _put_back(self, job):
        workspace = job.workspace
        paths = [base64.b64decode(path) for path in job.args.get("paths_b64") or ()] or None
        target = await job.thread(history.find_snapshot, workspace, job.args["number"])
        safety = await self._saved(job, target)
        await job.progress(step="restore", safety_snapshot=safety.number)
        failpoint("restore.saved")
        store = await job.thread(snapshots.store_of, workspace)
        async with job.open_tree() as tree:
            done = await job.thread(
                store.restore,
                target.tree_hex,
                tree,
                journal=snapshots.journal_of(workspace),
                paths=paths,
                keep=HOOK_FILES if _keeps_hooks(job) else (),
                **job.watch(),
            )
        failpoint("restore.placed")
        back, missing_snapshot = await self._kept(job, f"restored {target.number}{SOME_PATHS if paths else ''}")
        failpoint("restore.back")
        proof, not_compared = await self._compared(job, back if paths else target)
        return {
            "ok": True,
            "snapshot": target.number,
            "safety_snapshot": safety.number,
            **await self.sums(job, safety, back, done),
            "proof": proof,
            "not_compared": not_compared,
            "missing_snapshot": missing_snapshot,
        }

    async def _saved(self, job, target) -> Snapshot:
        """Return the safety snapshot of the files before the restore.

        After a runner crash this is the one taken then, since the tree may already be the restored one. A driver that
        cannot freeze gets one more, with what was written since. The newest snapshot serves if nothing was changed
        since, and retention keeps it for as long: small restores one after another add one snapshot each, not two.
        """
        if number := job.operation.progress.get("safety_snapshot"):
            if not job.driver.capabilities.freeze:
                await job.snapshot("safety", f"what came while it went back to {target.number}")
            return await job.thread(history.find_snapshot, job.workspace, number)
        head = job.workspace.head
        how = {"unless_same": head is not None and head.kind in SAFE_KINDS, **job.watch()}
        return await job.snapshot("safety", f"before restoring {target.number}", **how)

    async def sums(self, job, before: Snapshot, after: Snapshot | None, done) -> dict:
        """Count what differs between the snapshots before and after, as the page did that asked for the restore.

        `done` is what the store counts, each folder too; it stands where the two can't be compared.
        """
        if after is not None:
            trees = before.tree_hex, after.tree_hex
            with suppress(Problem, StoreError):  # the files are restored, whether or not they can be counted
                rows = await job.thread(partial(history.changes_of_trees, job.workspace, *trees, count=False))
                done = Restored.of(row for row in rows if self.counts_git or not row.is_gits_own)
        return {"created": done.created, "changed": done.changed, "removed": done.removed}

    async def _kept(self, job, label: str) -> tuple[Snapshot | None, str]:
        """Snapshot the restored files. Return (snapshot, "") or (None, why it is missing); the files stay restored."""
        try:
            return await job.snapshot("restored", label), ""
        except (StoreError, DriverError, OSError) as error:
            why = str(error).removesuffix(".")
            return None, f"The files were restored, but a snapshot of them could not be taken yet: {why}."

    async def _compared(self, job, against: Snapshot | None) -> tuple[dict, str]:
        """Compare the restored files with a snapshot. Return (proof, "") or ({}, why it is missing).

        {} without a snapshot too: some paths were restored, and no snapshot of them could be taken.
        """
        if against is None:
            return {}, ""
        try:
            async with job.open_tree() as tree:
                return await job.thread(compare_files, job.workspace, tree, against), ""
        except (StoreError, DriverError, OSError) as error:
            return {}, f"The files were restored, but could not be compared with snapshot {against.number}: {error}."

    def finish(self, job, outcome):
        if not outcome["ok"]:
            lifecycle.record(job.workspace, job.by, "workspace.restore_failed", {"reason": outcome["reason"][:1000]})
            return
        with Team.objects.turn(job.workspace.team_id):
            rows, proof = Workspace.objects.filter(pk=job.workspace.pk), outcome["proof"]
            rows.update(disk_generation=job.workspace.disk_generation + 1, missing_snapshot=outcome["missing_snapshot"])
            if proof:
                rows.update(proof=proof)
                open_run = Run.objects.filter(workspace=job.workspace, ended_at=None)
                open_run.update(proof_entries=proof["entries"], proof_differ=proof["differ"])
                if proof["differ"] or not job.args.get("paths_b64"):  # a fully restored tree clears the alarm
                    rows.update(alarm=proof | {"found": None} if proof["differ"] else {})
            if not job.args.get("paths_b64"):
                numbers = {"number": outcome["snapshot"], "until": outcome["safety_snapshot"]}
                rows.update(source=source_history.gone_back(rows.get(), **numbers))
            if follow := job.args.get("follow"):
                rows.update(**follow)
            names = ("snapshot", "safety_snapshot", "created", "changed", "removed", "missing_snapshot", "not_compared")
            data = {name: outcome[name] for name in names} | {"differ": proof.get("differ")}
            data |= {"some_paths": True} if job.args.get("paths_b64") else {}
            lifecycle.record(job.workspace, job.by, "workspace.restored", data)
            resume_if_asked(job)


def resume_if_asked(job):
    """Submit the resume that was asked for with new files; without room for it the workspace stays as it is."""
    if not job.args.get("then_resume") or operations.is_stopped(job.workspace.team_id):
        return
    with suppress(Problem):
        lifecycle.submit_exclusive(job.workspace, "resume", by=job.by)


def _keeps_hooks(job) -> bool:
    """Return True if a restore must leave the agent's hook files as they are.

    That is always so in a connected folder, and elsewhere for agents and for actions approved for them.
    """
    return bool(job.workspace.own_folder or job.by.type == "agent" or job.by.approval)


async def _open_files(job, owner) -> list[Process]:
    """Return the processes that have files of the tree open."""
    return [process for process in await job.driver.processes(owner, open_files=True) if process.open]


async def _holders(job, owner, before: list[Process]) -> list[dict]:
    """Return up to HOLDERS processes that still hold a replaced or removed file open, and so see its old content."""
    now = {process.pid: process.open for process in await job.driver.processes(owner, open_files=True)}
    found = []
    for process in before:
        old = [path for path in process.open if path not in now.get(process.pid, process.open)]
        if old:
            found.append({"pid": process.pid, "argv": list(process.argv)[:3], "open": old[:5]})
    return found[:HOLDERS]
