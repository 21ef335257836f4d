"""Resume a workspace after comparing its files with the newest snapshot; also that comparison (the proof) alone."""

import hashlib

from dashboard import clock
from dashboard.failpoints import failpoint
from dashboard.strict_json import canonical
from workspaces import lifecycle
from workspaces.models import EndCode, Manifest, Run, State, Workspace
from workspaces.runner import snapshots
from workspaces.runner.job import Job, Kind
from workspaces.runner.operations.create import bring_up
from workspaces.runner.operations.shutdown import bring_down, end_run
from workspaces.services import commands
from workspaces.services.drift import drift_of, made_with
from workspaces.store import StoreError

BY_STAT = "size and times, and content where these differ"
BY_CONTENT = "every byte"
MAX_NAMED = 100  # differing paths listed in a proof


class Resume(Kind):
    """Recover an interrupted restore, compare the files with the newest snapshot, and start the workspace."""

    async def perform(self, job):
        workspace = await job.refresh()
        is_up = await _is_up(job)
        if workspace.state == State.READY and is_up:
            return {"ok": True, "already": True}
        if workspace.state not in (State.PAUSED, State.STOPPED, State.READY):
            raise job.wrong_state()
        await job.mark_started()
        if workspace.state == State.READY:
            await _close_dead_run(job)
        elif not is_up:
            await end_run(job, EndCode.RUNNER_STOPPED)
        found = {}

        async def compare():
            async with job.lock(), job.open_tree():
                await job.recover_tree()
                await _take_missing_snapshot(job)
                found["proof"], found["alarm"] = await proven(job, full=bool(job.args.get("full")))
            failpoint("resume.proved")

        run = await bring_up(job, first=compare)
        drift = await job.thread(drift_of, workspace)
        made = {"image": run.owner.get("image"), "memory": _memory_message(job, run)}
        return {"ok": True, "run": str(run.pk), **found, **made, "drift": drift and drift.as_json()}

    def finish(self, job, outcome):
        workspace = job.workspace
        if not outcome["ok"]:
            Workspace.objects.filter(pk=workspace.pk).update(reason=outcome["reason"])
            lifecycle.record(workspace, job.by, "workspace.resume_failed", {"reason": outcome["reason"][:1000]})
            return
        if outcome.get("already"):
            return
        proof, now = outcome["proof"], clock.now()
        Run.objects.filter(pk=outcome["run"]).update(proof_entries=proof["entries"], proof_differ=proof["differ"])
        Workspace.objects.filter(pk=workspace.pk).update(state=State.READY, reason="", last_active_at=now)
        note_proof(workspace, proof, outcome["alarm"])
        commands.maintain(workspace, before=job.operation)
        body = {
            "format": 1,
            "workspace": workspace.key,
            "resumed_at": now.isoformat(),
            "proof": proof,
            "memory": outcome["memory"],
            **made_with(workspace.environment),
            "image_digest": workspace.base.get("digest"),
            "machine_image": outcome["image"],
            "setup_layer": workspace.base.get("layer_digest"),
            "drift": outcome["drift"],
        }
        Manifest.objects.create(run_id=outcome["run"], body=body, sha256=hashlib.sha256(canonical(body)).hexdigest())
        verb = "workspace.resumed" if not proof["differ"] else "workspace.proof_failed"
        lifecycle.record(workspace, job.by, verb, proof | {"drift": outcome["drift"], "memory": outcome["memory"]})


def _memory_message(job, run) -> str | None:
    """Say whether the programs resumed or the machine booted; None if the driver does not keep memory."""
    if not job.driver.capabilities.memory:
        return None
    return "its programs went on" if not run.cold else f"it was booted: {run.why_cold}"


async def _is_up(job) -> bool:
    owner = await job.owner()
    return owner is not None and await job.driver.alive(owner)


async def _close_dead_run(job):
    """Take the end snapshot of a Run that died unnoticed before this resume, and mark the workspace stopped."""
    missing_snapshot = await bring_down(job, EndCode.UNSEEN)
    rows = Workspace.objects.filter(pk=job.workspace.pk)
    await job.thread(rows.update, state=State.STOPPED, missing_snapshot=missing_snapshot, reason=missing_snapshot)
    job.workspace.state, job.workspace.missing_snapshot = State.STOPPED, missing_snapshot


async def _take_missing_snapshot(job):
    """Take the missing end snapshot, if any, before anything starts. Raise StoreError if it still fails."""
    if not job.workspace.missing_snapshot:
        return
    try:
        await job.snapshot("end", "files of the last run")
    except StoreError as error:
        raise StoreError(f"A snapshot of its last state must be taken before anything starts: {error}") from error


class Prove(Kind):
    """Compare every byte of a paused or stopped workspace with its newest snapshot."""

    async def perform(self, job):
        await job.require(State.PAUSED, State.STOPPED)
        await job.mark_started()
        async with job.lock(), job.open_tree():
            await job.recover_tree()
            await _take_missing_snapshot(job)
            proof, alarm = await proven(job, full=True)
        return {"ok": True, "proof": proof, "alarm": alarm}

    def finish(self, job, outcome):
        if outcome["ok"]:
            note_proof(job.workspace, outcome["proof"], outcome["alarm"])
            verb = "workspace.proof_failed" if outcome["proof"]["differ"] else "workspace.proven"
            lifecycle.record(job.workspace, job.by, verb, outcome["proof"])


async def proven(job: Job, *, full: bool = False) -> tuple[dict, dict]:
    """Compare the live tree with the newest snapshot; return (proof, alarm), the alarm {} when nothing differs.

    When something differs, the files are first kept as a `found` snapshot, before anything can change them.
    """
    async with job.open_tree() as tree:
        proof = await job.thread(prove, job.workspace, tree, full=full, lend=False)
    if not proof["differ"]:
        return proof, {}
    try:
        found = await job.snapshot("found", f"as found, not as snapshot {proof['snapshot']}")
    except StoreError as error:
        return proof, proof | {"found": None, "not_kept": str(error)}
    return proof, proof | {"found": found.number}


def note_proof(workspace, proof: dict, alarm: dict):
    """Save a proof and its alarm, if any. An alarm stays until a person answers it, whatever later proofs find."""
    rows = Workspace.objects.filter(pk=workspace.pk)
    rows.update(proof=proof, **({"alarm": alarm} if alarm else {}))


def prove(workspace, tree, *, full: bool = False, lend: bool = True) -> dict:
    """Compare the live tree with the newest snapshot; `lend` as for `Store.compare`.

    Return {at, snapshot, entries, differ, names, how}: `differ` counts the differing paths, `names` lists the first.
    """
    if workspace.head is None:
        return {"at": clock.now().isoformat(), "snapshot": None, "entries": 0, "differ": 0, "names": [], "how": "none"}
    found = snapshots.store_of(workspace).compare(workspace.head.tree_hex, tree, full=full, lend=lend)
    return {
        "at": clock.now().isoformat(),
        "snapshot": workspace.head.number,
        "entries": found.entries,
        "differ": len(found.differ),
        "names": [path.decode("utf-8", "backslashreplace") or "." for path in found.differ[:MAX_NAMED]],
        "how": BY_CONTENT if full else BY_STAT,
    }
