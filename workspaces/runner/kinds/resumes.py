"""Resume: recover, prove that the files are those that went to sleep, and bring it up."""

import hashlib

from dashboard import clock
from dashboard.strict_json import canonical
from workspaces import lifecycle
from workspaces.models import Manifest, Run, State, Workspace
from workspaces.runner import snapshots
from workspaces.runner.job import Kind
from workspaces.runner.kinds.starts import bring_up
from workspaces.store import recover


class Resume(Kind):
    """Recover what a crash left, prove that the files are those that went to sleep, and bring it up."""

    async def perform(self, job):
        workspace = await job.refresh()
        if workspace.state == State.READY and await _is_up(job):
            return {"ok": True, "already": True}
        if workspace.state not in (State.PAUSED, State.STOPPED, State.READY):
            return {"ok": False, "reason": f"{workspace.key} {lifecycle.STATE_WORDS[workspace.state]}."}
        await job.started()
        async with job.lock():
            await job.thread(recover, snapshots.journal_of(workspace))
            proof = await job.thread(prove, workspace)
        run = await bring_up(job)
        return {"ok": True, "run": str(run.pk), "proof": proof}

    def finish(self, job, outcome):
        workspace = job.workspace
        if not outcome["ok"]:
            Workspace.objects.filter(pk=workspace.pk).update(reason=outcome["reason"])
            lifecycle.record(workspace, job.by, "workspace.resume_failed", {"reason": outcome["reason"][:1000]})
            return
        if outcome.get("already"):
            return
        proof = outcome["proof"]
        Run.objects.filter(pk=outcome["run"]).update(proof_entries=proof["entries"], proof_differ=proof["differ"])
        Workspace.objects.filter(pk=workspace.pk).update(
            state=State.READY, reason="", proof=proof, last_active_at=clock.now()
        )
        body = {"format": 1, "workspace": workspace.key, "resumed_at": clock.now().isoformat(), "proof": proof}
        Manifest.objects.create(run_id=outcome["run"], body=body, sha256=hashlib.sha256(canonical(body)).hexdigest())
        verb = "workspace.resumed" if not proof["differ"] else "workspace.proof_failed"
        lifecycle.record(workspace, job.by, verb, proof)


async def _is_up(job) -> bool:
    owner = await job.owner()
    return owner is not None and await job.driver.alive(owner)


def prove(workspace, full=False) -> dict:
    """{at, snapshot, entries, differ, names, how}: the live tree beside the newest snapshot."""
    if workspace.head is None:
        return {"at": clock.now().isoformat(), "snapshot": None, "entries": 0, "differ": 0, "names": [], "how": "none"}
    found = snapshots.store_of(workspace).compare(workspace.head.tree_hex, snapshots.live_tree(workspace), full=full)
    return {
        "at": clock.now().isoformat(),
        "snapshot": workspace.head.number,
        "entries": found.entries,
        "differ": len(found.differ),
        "names": [_name(entry) for entry in found.differ[:100]],
        "how": "full" if full else "stat, and content where stat differs",
    }


def _name(entry) -> str:
    path = entry if isinstance(entry, bytes) else getattr(entry, "path", entry)
    return path.decode("utf-8", "backslashreplace") if isinstance(path, bytes) else str(path)
