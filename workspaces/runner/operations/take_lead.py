"""Lead what lives on without its host, which is lost: this host takes over its Run, with all of its files."""

from django.utils.dateparse import parse_datetime

from dashboard.database import clock
from dashboard.keys.keyring import Unreadable
from dashboard.workers.failpoints import failpoint
from workspaces import lifecycle
from workspaces.drivers.base import BackendLost, DriverError
from workspaces.host import paths, run_leads
from workspaces.lifecycle import lost_hosts
from workspaces.models import EndCode, ReasonCode, Run, RunLead, State, Workspace
from workspaces.runner import leashes, waiting
from workspaces.runner.job import Kind
from workspaces.runner.operations.create import save_owner
from workspaces.runner.refusals import Refused
from workspaces.runner.run_spec import agents_spec
from workspaces.store import StoreError

NOT_TAKEN = "It could not be taken over"


class TakeLead(Kind):
    """args: {run, host, ready_at}: the Run, the host that was lost, and when the Run was ready.

    Commands and terminals end, since nobody has what they printed and what they print. While the driver's backend does
    not answer it is put off; if the Run cannot be taken over, the workspace comes back from its newest snapshot.
    """

    async def perform(self, job):
        workspace = await job.require(State.READY)
        run = await job.open_run()
        if run is None or str(run.pk) != job.args["run"]:
            raise Refused("It ended meanwhile.", ReasonCode.STATE)
        await job.mark_started()
        try:
            async with waiting.for_backend(job):
                owner = await self._take_over(job, run)
                failpoint("lead.taken")
                await self._recover_tree(job, owner)
        except (DriverError, StoreError, Unreadable, RunLead.DoesNotExist) as error:
            raise Refused(f"{NOT_TAKEN}: {error}", ReasonCode.LOST) from error
        await job.daemon.network.open_for_run(run, owner, workspace)
        return {"ok": True}

    async def _take_over(self, job, run):
        workspace, lead = job.workspace, await job.thread(run_leads.read, run)
        await job.thread(paths.make_folders, workspace)
        owner = await job.driver.take_over(await job.thread(agents_spec, workspace, run.pk), lead.needed)
        await job.thread(leashes.set_authority, workspace, lead.authority)
        await job.thread(save_owner, run, owner)
        return owner

    async def _recover_tree(self, job, owner):
        try:
            async with job.lock():
                await job.recover_tree()
        except BackendLost:
            raise  # all of it is done once more
        except (DriverError, StoreError):
            await job.driver.let_go(owner)
            raise

    def finish(self, job, outcome):
        workspace, host = Workspace.objects.select_related("head").get(pk=job.workspace.pk), job.args["host"]
        runs = Run.objects.filter(pk=job.args["run"], ended_at=None)
        if outcome["ok"]:
            runs.update(ready_at=parse_datetime(job.args["ready_at"]))
            reason = f"{job.daemon.row.host} leads it since {host} was lost. Its files are as they were; "
            reason += "commands and terminals that ran were ended."
            Workspace.objects.filter(pk=workspace.pk).update(reason=reason)
            lifecycle.record(workspace, job.by, "workspace.lead_taken", {"host": host, "reason": reason})
        elif workspace.state == State.READY and runs.end(EndCode.LOST, f"Its host {host} is lost."):
            since = clock.in_utc(workspace.head.created_at)
            reason = f"Its host {host} is lost. {outcome['reason']} Changes since {since} are not in a snapshot."
            lost_hosts.come_back(workspace, host, State.READY, reason, lacks=True, by=job.by)
