"""Resume a workspace after comparing its files with the newest snapshot."""

from dashboard.database import clock
from dashboard.workers.failpoints import failpoint
from workspaces import lifecycle
from workspaces.manifests import body
from workspaces.manifests.cause import cause_of
from workspaces.manifests.keep import sign_and_save
from workspaces.models import EndCode, Run, State, Workspace
from workspaces.runner import notes, shown_manifest, tree_access
from workspaces.runner.job import Kind
from workspaces.runner.operations.create import bring_up
from workspaces.runner.run_spec import spec_of
from workspaces.runner.steps.bring_back import bring_back
from workspaces.runner.steps.compare import compare_or_alarm, save_proof, take_missing_snapshot
from workspaces.runner.steps.shutdown import bring_down, end_run
from workspaces.services import commands
from workspaces.services.environments.drift import drift_of


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
                await take_missing_snapshot(job)
                found["proof"], found["alarm"] = await compare_or_alarm(job, full=bool(job.args.get("full")))
            failpoint("resume.proved")

        run = await bring_up(job, first=compare)
        found["notes"] = await notes.write_into_workspace(job)
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
        save_proof(workspace, proof, outcome["alarm"])
        commands.maintain(workspace, before=job.operation)
        record = body.of_resume(workspace, outcome["run"], outcome, at=now, cause=cause_of(job.by, job.operation))
        shown_manifest.show_after_commit(
            job.driver, outcome["run"], sign_and_save(record, run_id=outcome["run"]), workspace
        )
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
