"""Retention of a team: the sweep that deletes what is due. The operation has a team and no workspace."""

from dashboard.models import Team
from workspaces import operations
from workspaces.models import ReasonCode
from workspaces.runner.job import Kind
from workspaces.runner.refusals import Refused
from workspaces.services.retention import Report, dry_run, sweep_team, sweeps


class RetentionSweep(Kind):
    """Delete what is due, or with {dry_run: true} report it. After a crash it goes on with what is still due."""

    async def perform(self, job):
        await job.mark_started()
        report = await job.thread(_carry_out, job)
        return {"ok": True, "dry_run": job.args["dry_run"], **report.as_json()}

    def finish(self, job, outcome):
        sweeps.forget_old(job.operation.team)


def _carry_out(job) -> Report:
    team = Team.objects.get(pk=job.operation.team_id)
    if job.args["dry_run"]:
        return dry_run(team)
    # What an earlier attempt of this operation deleted is in its progress.
    earlier = job.operation.progress.get("deleted", 0)

    def watch(report: Report):
        operations.record_progress(job.operation, {"deleted": earlier + report.total, "layers": dict(report.counts)})
        if job.cancel.is_set():
            words = "Stopped. What it deleted stays deleted, and is in the log; the rest is due at the next sweep."
            raise Refused(words, ReasonCode.CANCELLED, **report.as_json())

    return sweep_team(team, watch=watch)
