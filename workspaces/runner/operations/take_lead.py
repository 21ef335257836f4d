"""Take over a Run whose host was lost or started anew, so that this host leads it.

All files are as they were. The Run's own host does so after a start that ended its connection to it.
"""

import logging
from contextlib import suppress
from functools import partial

from django.db import transaction
from django.utils.dateparse import parse_datetime

from dashboard.database import clock
from dashboard.keys.keyring import Unreadable
from dashboard.problems import Problem
from dashboard.workers.failpoints import failpoint
from workspaces import lifecycle
from workspaces.drivers.base import BackendLost, DriverError, OutOfReach
from workspaces.host import paths, run_leads
from workspaces.lifecycle import led_on, lost_hosts
from workspaces.models import EndCode, ReasonCode, Run, RunLead, Runner, State, Workspace
from workspaces.runner import adopting, leashes, waiting
from workspaces.runner.job import Kind
from workspaces.runner.operations.create import save_owner
from workspaces.runner.reconcile import liveness
from workspaces.runner.refusals import Refused
from workspaces.runner.run_spec import agents_spec
from workspaces.store import StoreError

logger = logging.getLogger("handrail.runner")
NOT_TAKEN = "It could not be taken over"


class TakeLead(Kind):
    """args: {run, host, ready_at}: the Run, the host that led it, and when the Run was ready.

    Commands and terminals go on under shims of this host; those that cannot are ended, and their operations uncertain.
    While the driver's backend does not answer it is put off; if the Run cannot be taken over, the workspace comes back
    from its newest snapshot. The outcome has `adopted`, the operations of programs that go on, if any do.
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
                adopted = await adopting.adopt_all(job, owner)
        except (DriverError, StoreError, Unreadable, RunLead.DoesNotExist) as error:
            if _is_own(job):
                await job.thread(_remove_empty_tree, workspace)
            raise Refused(f"{NOT_TAKEN}: {error}", ReasonCode.LOST) from error
        await job.daemon.network.open_for_run(run, owner, workspace)
        failpoint("lead.adopted")
        return {"ok": True} | ({"adopted": adopted} if adopted else {})

    async def _take_over(self, job, run):
        workspace, lead = job.workspace, await job.thread(run_leads.read, run)
        await job.thread(paths.make_folders, workspace)
        try:
            owner = await job.driver.take_over(await job.thread(agents_spec, workspace, run.pk), lead.needed)
        except OutOfReach as error:
            if _is_own(job):  # nothing is lost: it is waited for, since its files are nowhere else
                raise BackendLost(str(error)) from error
            raise
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
            if not _is_own(job):
                await job.driver.let_go(owner)
            raise

    def finish(self, job, outcome):
        workspace = Workspace.objects.select_related("head").get(pk=job.workspace.pk)
        going = _hand_on_programs(job, outcome)
        if outcome["ok"]:
            _say_taken(job, workspace, going)
        elif workspace.state == State.READY:
            (_close_and_resume if _is_own(job) else _come_back)(job, workspace, outcome["reason"])


def _run(job):
    return Run.objects.filter(pk=job.args["run"], ended_at=None)


def _is_own(job) -> bool:
    """Return whether this host led the Run before, too."""
    return job.args["host"] == job.daemon.row.host


def _remove_empty_tree(workspace: Workspace):
    """Remove the folder that was made for the files: empty, it would count as all that the workspace has."""
    with suppress(OSError):  # the files of an earlier Run are in it, and the driver knows that they are older
        paths.tree_of(workspace).rmdir()


def _hand_on_programs(job, outcome) -> int:
    """Have the programs recovered that were adopted, once this is committed; return their number."""
    going, ended = led_on.go_on(job.args["run"], outcome.get("adopted", ()))
    for begun in ended:
        reason = f"Its host {job.args['host']} is lost."
        lost_hosts.end_begun(begun, Runner.objects.get(host=job.args["host"]), reason)
    if going:
        transaction.on_commit(partial(job.daemon.in_loop, partial(job.daemon.recover, going)))
    return len(going)


def _say_taken(job, workspace: Workspace, going: int):
    here, host = job.daemon.row.host, job.args["host"]
    _run(job).update(ready_at=parse_datetime(job.args["ready_at"]))
    how = "was started anew and leads it again" if _is_own(job) else f"leads it since {host} was lost"
    ran = "commands and terminals that ran were ended"
    if going:
        ran = f"{going} of its commands and terminals {'go' if going > 1 else 'goes'} on, any other was ended"
    reason = f"{here} {how}. Its files are as they were; {ran}."
    Workspace.objects.filter(pk=workspace.pk).update(reason=reason)
    lifecycle.record(workspace, job.by, "workspace.lead_taken", {"host": host, "reason": reason})


def _come_back(job, workspace: Workspace, why: str):
    """Have it come back from its newest snapshot on another host, which may be this one."""
    host = job.args["host"]
    if _run(job).end(EndCode.LOST, f"Its host {host} is lost."):
        since = clock.in_utc(workspace.head.created_at)
        reason = f"Its host {host} is lost. {why} Changes since {since} are not in a snapshot."
        lost_hosts.come_back(workspace, host, State.READY, reason, lacks=True, by=job.by)


def _close_and_resume(job, workspace: Workspace, why: str):
    """Have the Run closed as one that died, and the workspace resumed, from its newest snapshot if the files are gone.

    Where the team is stopped or has no room, it stays stopped.
    """
    if _run(job).update(ready_at=parse_datetime(job.args["ready_at"])):
        liveness.request_close(workspace, job.args["run"], (EndCode.LOST.value, why))
        try:
            lifecycle.submit_exclusive(workspace, "resume", by=job.by)
        except Problem as refused:
            logger.warning("%s is not resumed: %s", workspace.key, refused.detail)
