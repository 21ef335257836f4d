"""Close a Run that was found dead."""

from workspaces import lifecycle
from workspaces.drivers.base import BackendLost, DriverError
from workspaces.models import EndCode, State, StateCode, Workspace
from workspaces.operations import endings
from workspaces.runner.job import Kind
from workspaces.runner.steps.shutdown import at_rest, bring_down

NOT_CLEARED = "It exited. Cleanup failed and will be retried."


class CloseRun(Kind):
    """Close a Run that was found dead: record why, take the end snapshot, and mark the workspace stopped."""

    stored = "ended"

    async def perform(self, job):
        workspace = await job.refresh()
        if workspace.state != State.READY:
            return {"ok": True, "already": True}
        run = await job.open_run()
        owner = await job.daemon.owner_of(job.driver, run.pk) if run else None
        if owner is not None and await job.driver.alive(owner):
            return {"ok": True, "already": True}
        await job.mark_started()
        known = job.operation.progress.get("why") or job.args.get("why")
        code, words = known or await self._why(job, owner)
        code = EndCode(code)
        # Saved first: the driver's record, which holds the reason, is cleared before the snapshot is taken.
        await job.progress(why=[code.value, words], services=[])  # nothing ran any more
        missing_snapshot = await bring_down(job, code, words, thorough=code == EndCode.HOST_RESTARTED)
        return {"ok": True, "end_code": code.value, "reason": words, "missing_snapshot": missing_snapshot}

    async def _why(self, job, owner) -> tuple[EndCode, str]:
        """Return why the Run ended, as a code and as a message."""
        try:
            code = EndCode(await job.driver.end_reason(owner)) if owner is not None else EndCode.LOST
            return code, await endings.reason_of(code, job.driver, owner)
        except BackendLost:
            raise  # it can tell later
        except DriverError as error:
            return EndCode.UNKNOWN, str(error)

    def finish(self, job, outcome):
        rows = Workspace.objects.filter(pk=job.workspace.pk, state=State.READY)
        if not outcome["ok"]:  # reconcile/liveness.py submits it again
            words = f"{NOT_CLEARED} {outcome['reason']}"
            if rows.exclude(reason=words).update(reason=words, reason_code=StateCode.NOT_CLEARED):
                lifecycle.record(job.workspace, job.by, "workspace.end_failed", {"reason": words[:1000]})
            return
        if outcome.get("already"):
            rows.filter(reason_code=StateCode.NOT_CLEARED).update(reason="")
            return
        reason, missing_snapshot = outcome["reason"], outcome["missing_snapshot"]
        words = f"{endings.sentence(outcome['end_code'], reason)} {missing_snapshot}".strip()
        rows.update(state=State.STOPPED, reason=words, missing_snapshot=missing_snapshot, vitals=at_rest(job.workspace))
        lifecycle.record(
            job.workspace, job.by, "workspace.ended", {"reason": words[:1000], "missing_snapshot": missing_snapshot}
        )
