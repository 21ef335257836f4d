"""Move a workspace to the trash."""

from dashboard.database import clock
from dashboard.models import Team
from workspaces import lifecycle
from workspaces.manifests import folder_manifest
from workspaces.models import EndCode, State, Workspace
from workspaces.runner import waiting
from workspaces.runner.job import Kind
from workspaces.runner.steps.shutdown import at_rest, bring_down, discard_memory, end_snapshot
from workspaces.services.retention import trash_date


class Trash(Kind):
    """Stop the workspace, take a last snapshot, and move it to the trash."""

    async def perform(self, job):
        workspace = await job.refresh()
        if workspace.trashed_at:
            return {"ok": True, "already": True}
        await job.mark_started()
        if workspace.environment.capabilities.own_folder:
            await job.thread(folder_manifest.take_away, workspace)
        if workspace.state == State.READY:
            async with waiting.for_backend(job):
                return {"ok": True, "missing_snapshot": await bring_down(job, EndCode.TRASHED)}
        await discard_memory(job, "the workspace went to the trash meanwhile.")
        return {"ok": True, "missing_snapshot": await end_snapshot(job) if workspace.missing_snapshot else ""}

    def finish(self, job, outcome):
        if outcome.get("already") or not outcome["ok"]:
            return
        with Team.objects.turn(job.workspace.team_id):
            rows = Workspace.objects.filter(pk=job.workspace.pk, trashed_at=None)
            stays = job.workspace.state in (State.FAILED, State.ARCHIVED)
            state = job.workspace.state if stays else State.STOPPED
            gone = {
                "trashed_at": clock.now(),
                "purge_at": trash_date(job.workspace),
                "missing_snapshot": outcome["missing_snapshot"],
            }
            rows.update(state=state, vitals=at_rest(job.workspace), **gone)
            lifecycle.record(
                job.workspace, job.by, "workspace.trashed", {"missing_snapshot": outcome["missing_snapshot"]}
            )
