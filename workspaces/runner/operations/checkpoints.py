"""Keep a checkpoint of a paused microVM, continue from one, and remove the files of a deleted one.

A restore is three steps, each of which can run again after a crash: end what runs and take a snapshot of its files;
note in the database that these files are replaced; put disks and memory of the checkpoint in place and resume.
"""

from functools import partial

from django.conf import settings

from dashboard.models import Event, Team
from dashboard.text.visible_text import plain_size
from dashboard.workers.failpoints import failpoint
from workspaces import lifecycle
from workspaces.host import paths
from workspaces.models import Checkpoint, EndCode, ReasonCode, Run, State, Workspace
from workspaces.provisioning import capacity
from workspaces.runner import notes, removing, snapshots
from workspaces.runner.job import Job, Kind
from workspaces.runner.operations import from_checkpoint
from workspaces.runner.operations.archiving import mark_stopped
from workspaces.runner.operations.comparing import prove
from workspaces.runner.operations.create import bring_up
from workspaces.runner.operations.resume import Resume, memory_message
from workspaces.runner.operations.shutdown import bring_down, discard_memory, end_run
from workspaces.runner.refusals import Refused
from workspaces.runner.run_spec import spec_of
from workspaces.services.environments.drift import drift_of


class KeepCheckpoint(Kind):
    """Copy the memory and the disks of a paused microVM; args: {checkpoint}."""

    async def perform(self, job):
        workspace = await job.require(State.PAUSED)
        spec = spec_of(workspace, job.operation.pk)
        if why := await job.driver.why_no_memory(spec):
            raise Refused(f"There is no memory to keep. {why}", ReasonCode.STATE)
        _refuse_without_room(await job.driver.checkpoint_bytes(spec))
        await job.mark_started()
        async with job.lock():
            kept = await job.driver.keep_checkpoint(spec, paths.checkpoint_of(workspace.pk, job.args["checkpoint"]))
        failpoint("checkpoint_files.kept")
        return {"ok": True, "bytes": kept.bytes, "began": kept.began}

    def finish(self, job, outcome):
        workspace, found = job.workspace, Checkpoint.objects.filter(pk=job.args["checkpoint"]).first()
        if found is None:
            return
        about = {"actor": job.by, "subject": found, "workspace": workspace}
        if not outcome["ok"]:
            data = {"name": found.name, "reason": outcome["reason"][:1000]}
            Event.objects.record(workspace.team_id, verb="checkpoint.failed", data=data, **about)
            found.delete()
            return
        found.snapshot, found.snapshot_number = workspace.head, workspace.head.number if workspace.head else 0
        found.environment, found.base = workspace.environment, workspace.base
        found.disk_generation = workspace.disk_generation
        found.bytes, found.began = outcome["bytes"], outcome["began"]
        found.save()
        data = {"name": found.name, "bytes": found.bytes, "snapshot": found.snapshot_number}
        Event.objects.record(workspace.team_id, verb="checkpoint.kept", data=data, **about)


def _refuse_without_room(needed: int):
    if capacity.free_bytes() - needed < settings.HANDRAIL_RESERVE_BYTES:
        raise Refused(f"The checkpoint takes {plain_size(needed)}, and the disk has no room for that.")


class RestoreCheckpoint(Resume):
    """Continue the workspace from a checkpoint, after a snapshot of its files as they are now; args: {checkpoint}."""

    when_store_fails = "Nothing was restored: "

    async def perform(self, job):
        workspace = await job.refresh()
        if workspace.state not in (State.READY, State.PAUSED, State.STOPPED):
            raise job.wrong_state()
        checkpoint = await job.thread(from_checkpoint.kept, job.args["checkpoint"])
        await job.mark_started()
        if "saved" not in job.operation.progress:
            await _give_way(job)
            await job.progress(saved=job.workspace.head.number if job.workspace.head else None, step="checkpoint")
        await end_run(job, EndCode.RUNNER_STOPPED)  # one that a runner began which died
        failpoint("checkpoint_files.saved")
        await job.thread(_note_replaced, job, checkpoint)
        async with job.lock():
            await from_checkpoint.put(job, checkpoint)
        failpoint("checkpoint_files.placed")
        return await self._go_on(job, checkpoint)

    async def recover(self, job):
        """Start over, with the snapshot that was taken before the crash."""
        return await self.perform(job)

    async def _go_on(self, job: Job, checkpoint: Checkpoint) -> dict:
        found = {}
        run = await bring_up(job, first=partial(_compare, job, checkpoint, found))
        found["notes"] = await notes.give(job)
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
        found["proof"] = await job.thread(_proof, job.workspace, tree, checkpoint.snapshot or taken)
    found["alarm"] = found["proof"] | {"found": taken.number} if found["proof"]["differ"] else {}


def _proof(workspace, tree, against) -> dict:
    head, workspace.head = workspace.head, against
    try:
        return prove(workspace, tree, lend=False)
    finally:
        workspace.head = head


class DropCheckpoint(Kind):
    """Remove the files of a deleted checkpoint; args: {checkpoint}."""

    async def perform(self, job):
        await job.refresh()
        await job.mark_started()
        await job.thread(removing.remove, paths.checkpoint_of(job.workspace.pk, job.args["checkpoint"]))
        return {"ok": True}
