"""Resume a workspace after comparing its files with the newest snapshot; also that comparison (the proof) alone."""

from dashboard.database import clock
from dashboard.workers.failpoints import failpoint
from workspaces import lifecycle
from workspaces.manifests import body
from workspaces.manifests.cause import cause_of
from workspaces.manifests.keep import keep
from workspaces.models import EndCode, Run, State, Workspace
from workspaces.runner import notes, shown_manifest, tree_access
from workspaces.runner.job import Job, Kind
from workspaces.runner.operations.archiving import bring_back
from workspaces.runner.operations.comparing import prove
from workspaces.runner.operations.create import bring_up
from workspaces.runner.operations.shutdown import bring_down, end_run
from workspaces.runner.run_spec import spec_of
from workspaces.services import commands
from workspaces.services.environments.drift import drift_of
from workspaces.store import StoreError


class Resume(Kind):
    """Recover an interrupted restore, compare the files with the newest snapshot, and start the workspace.

    The files of an archived workspace are restored first.
    """

    async def perform(self, job):
        workspace = await job.refresh()
        is_up = await _is_up(job)
        if workspace.state == State.READY and is_up:
            return {"ok": True, "already": True}
        if workspace.state not in (State.PAUSED, State.STOPPED, State.ARCHIVED, State.READY):
            raise job.wrong_state()
        await job.mark_started()
        if workspace.state == State.ARCHIVED:
            await bring_back(job)
        if workspace.state == State.READY:
            await _close_dead_run(job)
        elif not is_up:
            await end_run(job, EndCode.RUNNER_STOPPED)
        lost = "" if is_up else await job.thread(_lost, job)
        if lost:
            await bring_back(job, lost)
        found = {"lost": lost}

        async def compare():
            async with job.lock(), job.open_tree():
                await job.recover_tree()
                await _take_missing_snapshot(job)
                found["proof"], found["alarm"] = await proven(job, full=bool(job.args.get("full")))
            failpoint("resume.proved")

        run = await bring_up(job, first=compare)
        found["notes"] = await notes.give(job)
        drift = await job.thread(drift_of, workspace)
        made = {"image": run.owner.get("image"), "memory": memory_message(job, run)}
        return {"ok": True, "run": str(run.pk), **found, **made, "drift": drift and drift.as_json()}

    async def recover(self, job):
        """Start over. Notes that were being given before the crash are kept first, so that the comparison holds."""
        if job.operation.progress.get("gives"):
            await job.refresh()
            async with job.lock():
                await job.snapshot("end", "after notes were given")
        return await self.perform(job)

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
        Workspace.objects.filter(pk=workspace.pk).update(
            state=State.READY, reason=outcome.get("lost", ""), last_active_at=now
        )
        note_proof(workspace, proof, outcome["alarm"])
        commands.maintain(workspace, before=job.operation)
        record = body.of_resume(workspace, outcome["run"], outcome, at=now, cause=cause_of(job.by, job.operation))
        shown_manifest.show_after_commit(job.driver, outcome["run"], keep(record, run_id=outcome["run"]), workspace)
        verb = "workspace.resumed" if not proof["differ"] else "workspace.proof_failed"
        lifecycle.record(workspace, job.by, verb, proof | {"drift": outcome["drift"], "memory": outcome["memory"]})


def memory_message(job, run) -> str | None:
    """Say whether the programs resumed or the machine booted; None if the driver does not keep memory."""
    if not job.driver.capabilities.memory:
        return None
    return "its programs went on" if not run.cold else f"it was booted: {run.why_cold}"


async def _is_up(job) -> bool:
    owner = await job.owner()
    return owner is not None and await job.driver.alive(owner)


def _lost(job) -> str:
    """Return in words that the files are gone from this host, of which the newest snapshot is all there is, else ""."""
    workspace = job.workspace
    if not tree_access.are_gone(job.driver, workspace, spec_of(workspace, f"reader-{job.operation.pk}")):
        return ""
    then = workspace.head.created_at.strftime("%Y-%m-%d %H:%M UTC")
    return (
        f"{tree_access.GONE} They are those of snapshot {workspace.head.number} of {then}; what came after it is lost."
    )


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
