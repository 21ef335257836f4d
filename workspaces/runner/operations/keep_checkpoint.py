"""Keep the memory and the disks of a paused microVM as a checkpoint."""

from django.conf import settings

from dashboard.models import Event
from dashboard.text.visible_text import plain_size
from dashboard.workers.failpoints import failpoint
from workspaces.host import paths
from workspaces.models import Checkpoint, ReasonCode, State
from workspaces.provisioning import capacity
from workspaces.runner.job import Kind
from workspaces.runner.refusals import Refused
from workspaces.runner.run_spec import spec_of


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
