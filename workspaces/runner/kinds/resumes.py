"""Resume: recover, prove that the files are those that went to sleep, and bring it up; and the proof by itself."""

import hashlib

from dashboard import clock
from dashboard.failpoints import failpoint
from dashboard.strict_json import canonical
from workspaces import lifecycle
from workspaces.drift import drift_of, made_with
from workspaces.models import Manifest, Run, State, Workspace
from workspaces.runner import snapshots
from workspaces.runner.job import Job, Kind
from workspaces.runner.kinds.ends import bring_down, end_run
from workspaces.runner.kinds.starts import bring_up
from workspaces.store import StoreError

BY_STAT = "size and times, and content where these differ"
BY_CONTENT = "every byte"
NAMED = 100  # paths that differ, as a proof names them


class Resume(Kind):
    """Recover what a crash left, prove that the files are those that went to sleep, and bring it up."""

    async def perform(self, job):
        workspace = await job.refresh()
        is_up = await _is_up(job)
        if workspace.state == State.READY and is_up:
            return {"ok": True, "already": True}
        if workspace.state not in (State.PAUSED, State.STOPPED, State.READY):
            return {"ok": False, "reason": f"{workspace.key} {lifecycle.STATE_WORDS[workspace.state]}."}
        await job.started()
        if workspace.state == State.READY:
            await _ended_unseen(job)
        elif not is_up:
            await end_run(job, "The runner stopped while it was brought up.")
        seen = {}

        async def look():
            async with job.lock(), job.live():
                await job.recover_tree()
                await _pay_what_is_owed(job)
                seen["proof"], seen["alarm"] = await proven(job, full=bool(job.args.get("full")))
            failpoint("resume.proved")

        run = await bring_up(job, first=look)
        drift = await job.thread(drift_of, workspace)
        made = {"image": run.owner.get("image"), "memory": _memory_words(job, run)}
        return {"ok": True, "run": str(run.pk), **seen, **made, "drift": drift and drift.as_json()}

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


def _memory_words(job, run) -> str | None:
    """Whether its programs went on, in words; None where no pause keeps any."""
    if not job.driver.capabilities.memory:
        return None
    return "its programs went on" if not run.cold else f"it was booted: {run.why_cold}"


async def _is_up(job) -> bool:
    owner = await job.owner()
    return owner is not None and await job.driver.alive(owner)


async def _ended_unseen(job):
    """It died, and the wish to wake it came before anybody had seen that: first the snapshot of its end."""
    owed = await bring_down(job, "It had ended by itself.")
    rows = Workspace.objects.filter(pk=job.workspace.pk)
    await job.thread(rows.update, state=State.STOPPED, owed=owed, reason=owed)
    job.workspace.state, job.workspace.owed = State.STOPPED, owed


async def _pay_what_is_owed(job):
    """The snapshot of its end that could not be taken then; nothing starts over it. StoreError: still not."""
    if not job.workspace.owed:
        return
    try:
        await job.snapshot("end", "owed since its end")
    except StoreError as error:
        raise StoreError(
            f"The snapshot of its end is owed, and has to be taken before anything starts: {error}"
        ) from error


class Prove(Kind):
    """Compare every byte of one that is at rest with its newest snapshot."""

    async def perform(self, job):
        workspace = await job.refresh()
        if workspace.state not in (State.PAUSED, State.STOPPED):
            return {"ok": False, "reason": f"{workspace.key} {lifecycle.STATE_WORDS[workspace.state]}."}
        await job.started()
        async with job.lock(), job.live():
            await job.recover_tree()
            await _pay_what_is_owed(job)
            proof, alarm = await proven(job, full=True)
        return {"ok": True, "proof": proof, "alarm": alarm}

    def finish(self, job, outcome):
        if outcome["ok"]:
            note_proof(job.workspace, outcome["proof"], outcome["alarm"])
            verb = "workspace.proof_failed" if outcome["proof"]["differ"] else "workspace.proven"
            lifecycle.record(job.workspace, job.by, verb, outcome["proof"])


async def proven(job: Job, *, full: bool = False) -> tuple[dict, dict]:
    """(the proof, the alarm or {}): what was found is kept as a snapshot of its own before anything can change it."""
    async with job.live() as tree:
        proof = await job.thread(prove, job.workspace, tree, full=full, lend=False)
    if not proof["differ"]:
        return proof, {}
    try:
        found = await job.snapshot("found", f"as found, not as snapshot {proof['snapshot']}")
    except StoreError as error:
        return proof, proof | {"found": None, "not_kept": str(error)}
    return proof, proof | {"found": found.number}


def note_proof(workspace, proof: dict, alarm: dict):
    """An alarm stays until somebody answers it, whatever later proofs say."""
    rows = Workspace.objects.filter(pk=workspace.pk)
    rows.update(proof=proof, **({"alarm": alarm} if alarm else {}))


def prove(workspace, tree, *, full: bool = False, lend: bool = True) -> dict:
    """{at, snapshot, entries, differ, names, how}: the live tree and the newest snapshot; `lend` as for the store."""
    if workspace.head is None:
        return {"at": clock.now().isoformat(), "snapshot": None, "entries": 0, "differ": 0, "names": [], "how": "none"}
    found = snapshots.store_of(workspace).compare(workspace.head.tree_hex, tree, full=full, lend=lend)
    return {
        "at": clock.now().isoformat(),
        "snapshot": workspace.head.number,
        "entries": found.entries,
        "differ": len(found.differ),
        "names": [path.decode("utf-8", "backslashreplace") or "." for path in found.differ[:NAMED]],
        "how": BY_CONTENT if full else BY_STAT,
    }
