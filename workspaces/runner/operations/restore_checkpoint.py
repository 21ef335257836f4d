"""Continue a workspace from a checkpoint.

A restore is three steps, each of which can run again after a crash: end what runs and take a snapshot of its files;
note in the database that these files are replaced; put disks and memory of the checkpoint in place and resume.
"""

from functools import partial

from dashboard.models import Team
from dashboard.workers.failpoints import failpoint
from workspaces import lifecycle
from workspaces.models import Checkpoint, EndCode, ReasonCode, Run, State, Workspace
from workspaces.runner import notes, snapshots
from workspaces.runner.job import Job
from workspaces.runner.operations.create import bring_up
from workspaces.runner.operations.resume import Resume, memory_message
from workspaces.runner.refusals import Refused
from workspaces.runner.steps import from_checkpoint
from workspaces.runner.steps.compare import compare_files
from workspaces.runner.steps.shutdown import bring_down, discard_memory, end_run, mark_stopped
from workspaces.services.environments.drift import drift_of


class RestoreCheckpoint(Resume):
    """Continue the workspace from a checkpoint, after a snapshot of its files as they are now; args: {checkpoint}."""

    when_store_fails = "Nothing was restored: "

    async def perform(self, job):
        workspace = await job.refresh()
        if workspace.state not in (State.READY, State.PAUSED, State.STOPPED):
            raise job.wrong_state()
        checkpoint = await job.thread(from_checkpoint.find_checkpoint, job.args["checkpoint"])
        await job.mark_started()
        if "saved" not in job.operation.progress:
            await _give_way(job)
            await job.progress(saved=job.workspace.head.number if job.workspace.head else None, step="checkpoint")
        await end_run(job, EndCode.RUNNER_STOPPED)  # one that a runner began which died
        failpoint("checkpoint_files.saved")
        await job.thread(_note_replaced, job, checkpoint)
        async with job.lock():
            await from_checkpoint.restore_files(job, checkpoint)
        failpoint("checkpoint_files.placed")
        return await self._go_on(job, checkpoint)

    async def recover(self, job):
        """Start over, with the snapshot that was taken before the crash."""
        return await self.perform(job)

    async def _go_on(self, job: Job, checkpoint: Checkpoint) -> dict:
        found = {}
        run = await bring_up(job, first=partial(_compare, job, checkpoint, found))
        found["notes"] = await notes.write_into_workspace(job)
        drift = await job.thread(drift_of, job.workspace)
        made = {"image": run.owner.get("image"), "memory": memory_message(job, run)}
        said = {"checkpoint": checkpoint.name, "safety_snapshot": job.operation.progress["saved"]}
        return {"ok": True, "run": str(run.pk), **found, **made, **said, "drift": drift and drift.as_json()}

    def finish(self, job, outcome):
        workspace = job.workspace
        if not outcome["ok"]:
            Workspace.objects.filter(pk=workspace.pk).exclude(state=State.READY).update(reason=outcome["reason"])
            data = {"reason": outcome["reason"][:1000]}
            lifecycle.record(workspace, job.by, "workspace.checkpoint_failed", data)
            return
        Workspace.objects.filter(pk=workspace.pk).update(alarm={})
        super().finish(job, outcome)
        names = ("checkpoint", "snapshot", "safety_snapshot", "memory")
        data = {name: outcome[name] for name in names} | {"differ": outcome["proof"]["differ"]}
        lifecycle.record(workspace, job.by, "workspace.checkpoint_restored", data)


async def _give_way(job: Job):
    """End what runs, discard kept memory, and see that a snapshot has the files as they are; it is stopped then."""
    workspace = job.workspace
    if workspace.state == State.READY:
        missing_snapshot = await bring_down(job, EndCode.STOPPED)
    else:
        if workspace.missing_snapshot:
            async with job.lock(), job.open_tree():
                await job.recover_tree()
                await job.snapshot("end", "files of the last run")
        await discard_memory(job, "a checkpoint was restored meanwhile.")
        missing_snapshot = ""
    await job.thread(mark_stopped, job, missing_snapshot)
    if missing_snapshot:
        raise Refused(f"Nothing was restored. {missing_snapshot}", ReasonCode.STORE)


def _note_replaced(job: Job, checkpoint: Checkpoint):
    """Save that the newest snapshot is not the files on disk any more, and what the memory of the checkpoint fits."""
    workspace = job.workspace
    missing = f"Checkpoint {checkpoint.name} was put in place; a snapshot of its files was not taken yet."
    fields = {"missing_snapshot": missing, "disk_generation": checkpoint.disk_generation}
    if checkpoint.environment_id == workspace.environment_id:
        fields["base"] = checkpoint.base
    with Team.objects.turn(workspace.team_id):
        Workspace.objects.filter(pk=workspace.pk).update(**fields)
        Run.objects.forget_memory(workspace.pk)
    for name, value in fields.items():
        setattr(workspace, name, value)
    snapshots.cache_of(workspace).unlink(missing_ok=True)  # it describes the disk that goes


async def _compare(job: Job, checkpoint: Checkpoint, found: dict):
    """Take a snapshot of the files that are in place now, and compare them with the checkpoint's snapshot."""
    async with job.lock(), job.open_tree() as tree:
        await job.recover_tree()
        taken = await job.snapshot("restored", f"checkpoint {checkpoint.name}"[:120], thorough=True)
        found["snapshot"] = taken.number
        found["proof"] = await job.thread(compare_files, job.workspace, tree, checkpoint.snapshot or taken, lend=False)
    found["alarm"] = found["proof"] | {"found": taken.number} if found["proof"]["differ"] else {}
