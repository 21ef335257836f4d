"""End a Run: each way takes an end snapshot, or records that one is missing."""

import logging
from datetime import datetime

from dashboard.keys.keyring import Unreadable
from dashboard.models import Team
from dashboard.workers.failpoints import failpoint
from workspaces import extensions, lifecycle
from workspaces.drivers.base import DriverError
from workspaces.manifests import body
from workspaces.models import EndCode, Phase, Run, State, Workspace
from workspaces.runner import programs, secret_scan, tree_access, waiting, watching
from workspaces.runner.job import Job, Kind
from workspaces.runner.measure import ports
from workspaces.runner.reconcile import suspended
from workspaces.runner.run_spec import spec_of
from workspaces.services import run_tokens
from workspaces.store import StoreError

logger = logging.getLogger("handrail.runner")


def mark_stopped(job: Job, missing_snapshot: str):
    """Save that it is stopped, if it was not, so that a refusal or a crash leaves it at rest."""
    rows = Workspace.objects.filter(pk=job.workspace.pk).exclude(state=State.STOPPED)
    at = {"reason": missing_snapshot, "missing_snapshot": missing_snapshot, "vitals": at_rest(job.workspace)}
    with Team.objects.turn(job.workspace.team_id):
        if rows.update(state=State.STOPPED, **at):
            lifecycle.record(job.workspace, job.by, "workspace.stopped", {"missing_snapshot": missing_snapshot})
    job.workspace.state, job.workspace.missing_snapshot = State.STOPPED, missing_snapshot


async def bring_down(job: Job, code: EndCode, words: str = "", *, thorough: bool = False) -> str:
    """End the programs and the Run, and take the end snapshot. Return why the snapshot is missing, or "".

    BackendLost, before anything is ended, while the driver's backend does not answer.
    """
    await job.driver.held_up()
    services = await _services_at_the_end(job)
    owner = await job.owner() if job.driver.capabilities.files_need_run else None
    if owner is not None and await job.driver.alive(owner):
        # A guest's files can be reached only while it is up.
        listened = await ports.of(job.driver, owner)
        await job.driver.end_programs(owner)
        await _scan_home(job, await job.open_run())
        missing_snapshot = await end_snapshot(job, thorough=thorough, ports=listened, services=services)
        await end_run(job, code, words)
        return missing_snapshot
    listened = await end_run(job, code, words)
    return await end_snapshot(job, thorough=thorough, ports=listened, services=services)


async def _services_at_the_end(job: Job) -> list[str]:
    """Return the services that ran when the end of the Run began; also after a restart of the runner meanwhile."""
    if (known := job.operation.progress.get("services")) is None:
        known = await job.thread(body.running_services, job.workspace)
        await job.progress(services=known)
    return known


async def pause_run(job: Job) -> str:
    """End the Run and keep its programs' memory if that is wanted and the driver can; otherwise as `bring_down`."""
    if not job.driver.capabilities.memory or not job.args.get("memory", True):
        return await bring_down(job, EndCode.PAUSED)
    owner, known = await job.owner(), job.operation.progress
    if owner is None or not await job.driver.alive(owner):
        if "missing_snapshot" in known and not await job.driver.why_no_memory(spec_of(job.workspace, job.operation.pk)):
            await suspended.confirm(job)  # the runner died after the memory was kept
            await end_run(job, EndCode.PAUSED, suspended_run=True)
            return known["missing_snapshot"]
        return await bring_down(job, EndCode.PAUSED)
    services = await _services_at_the_end(job)
    await programs.end_services(job, await job.open_run())
    # Frozen from before the snapshot until the next start has compared it with the files.
    await job.driver.freeze(owner)
    try:
        await _scan_home(job, await job.open_run())
        missing_snapshot = await end_snapshot(job, ports=await ports.of(job.driver, owner), services=services)
        await job.progress(missing_snapshot=missing_snapshot)
        failpoint("sleep.snapshot")
        await suspended.announce(job)
        await job.driver.pause(owner, spec_of(job.workspace, owner.run_id))
        failpoint("sleep.kept")
        await suspended.confirm(job)
    except DriverError as error:
        logger.warning("%s is paused without its memory: %s", job.workspace.key, error)
        return await bring_down(job, EndCode.PAUSED)
    await end_run(job, EndCode.PAUSED, suspended_run=True)
    return missing_snapshot


async def discard_memory(job: Job, why: str):
    """Discard the kept memory of a paused workspace, end its programs, and revoke its run tokens."""
    await job.driver.discard_memory(spec_of(job.workspace, job.operation.pk))
    await suspended.discard(job, why)
    await job.thread(Run.objects.forget_memory, job.workspace.pk)
    await job.thread(run_tokens.revoke, job.workspace.pk)


async def end_run(job: Job, code: EndCode, words: str = "", *, suspended_run: bool = False) -> list[dict]:
    """End the open Run, if any, and its programs. Return the ports they listened on.

    `suspended_run`: the programs' memory is kept, so their run tokens are suspended, not revoked.
    """
    run, listened = await job.open_run(), []
    if run is not None:
        owner = await job.daemon.owner_of(job.driver, run.pk)
        if owner is not None:
            listened = await ports.of(job.driver, owner)
            await job.driver.stop(owner)
            failpoint("down.stopped")
            await job.daemon.network.close(run.pk)
            await job.driver.clear(owner)
        await job.thread(_close, run, code, words, suspended_run)
        await job.thread(watching.drop, job.workspace)
        failpoint("down.closed")
        if not job.driver.capabilities.files_need_run:  # a guest's home was searched while the guest was up
            await _scan_home(job, run)
    return listened


async def _scan_home(job: Job, run: Run):
    """Search the home for secrets, and let others read it. An error here does not keep the Run from ending."""
    try:
        async with job.open_tree() as tree:
            await job.thread(secret_scan.scan_home, job.workspace, tree, run.started_at, by=job.by)
            await job.thread(extensions.ports.read_home, job.workspace, tree)
    except (OSError, DriverError, StoreError, Unreadable):
        logger.exception("the home of %s could not be searched for secrets", job.workspace.pk)


def _close(run, code, words, suspended_run):
    Run.objects.filter(pk=run.pk, ended_at=None).end(code, words, memory_kept=suspended_run)
    (run_tokens.suspend if suspended_run else run_tokens.revoke)(run.workspace_id)


async def end_snapshot(job: Job, **how) -> str:
    """Take the snapshot at the end of a Run. Return why it is missing, or ""."""
    async with job.lock():
        try:
            async with job.open_tree():
                await job.recover_tree()
                await job.snapshot("end", **how)
            failpoint("down.snapshot")
            return ""
        except (StoreError, DriverError, OSError) as error:
            # A driver says in words why files can't be reached, as when a node was lost: no fault of this program.
            trace = None if isinstance(error, DriverError) else error
            logger.warning("the snapshot at the end of %s is missing: %s", job.workspace.pk, error, exc_info=trace)
            return not_taken(error, are_gone=await job.thread(_are_gone, job))


def not_taken(error: Exception, *, are_gone: bool) -> str:
    """Return why there is no snapshot of the end, and what became of the files, as sentences."""
    why = str(error).removesuffix(".")
    if are_gone:
        return f"A snapshot could not be taken: {why}."
    return f"A snapshot could not be taken yet: {why}. The files on disk are unchanged."


def _are_gone(job: Job) -> bool:
    workspace = job.workspace
    is_ours = not workspace.environment.capabilities.own_folder
    return is_ours and tree_access.are_gone(job.driver, workspace, spec_of(workspace, job.operation.pk))


class EndRun(Kind):
    """End the Run and leave the workspace in `state`; base of Pause and Stop."""

    state: str
    verb: str
    end_code: EndCode
    before: tuple = (State.READY,)

    async def perform(self, job):
        workspace = await job.refresh()
        if workspace.state == self.state or (job.operation.phase != Phase.STARTED and _used_since(job)):
            return {"ok": True, "already": True}
        if workspace.state not in self.before:
            raise job.wrong_state()
        await job.mark_started()
        if workspace.state == State.PAUSED:  # nothing runs; the end snapshot was taken or is recorded as missing
            await discard_memory(job, "the workspace was stopped meanwhile.")
            return {"ok": True, "missing_snapshot": workspace.missing_snapshot}
        async with waiting.for_backend(job):
            return {"ok": True, "missing_snapshot": await self.end(job)}

    async def end(self, job) -> str:
        return await bring_down(job, self.end_code)

    def finish(self, job, outcome):
        if not outcome["ok"] or outcome.get("already"):
            return
        missing_snapshot = outcome["missing_snapshot"]
        rows = Workspace.objects.filter(pk=job.workspace.pk)
        rows.update(
            state=self.state, reason=missing_snapshot, missing_snapshot=missing_snapshot, vitals=at_rest(job.workspace)
        )
        lifecycle.record(job.workspace, job.by, self.verb, {"missing_snapshot": missing_snapshot})


def _used_since(job) -> bool:
    """Return True if the workspace was used after this idle pause was queued."""
    since, last = job.args.get("unless_used_since"), job.workspace.last_active_at
    return bool(since and last and last > datetime.fromisoformat(since))


def at_rest(workspace) -> dict:
    """Return the vitals of a workspace without programs: nothing is frozen and no port is listened on."""
    return {name: value for name, value in workspace.vitals.items() if name not in ("frozen", "ports")}
