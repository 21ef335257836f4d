"""Pause, stop, crash and trash: what ends a Run. Each leaves a snapshot, or says that one is owed."""

import logging
import shutil
from datetime import datetime

from django.db import transaction

from dashboard import clock
from dashboard.failpoints import failpoint
from dashboard.keyring import Unreadable
from workspaces import archives, lifecycle, network, places
from workspaces.drivers.base import DriverError
from workspaces.models import Phase, Run, State, Workspace
from workspaces.runner import leaks, ports, programs, sleepers
from workspaces.runner.job import Job, Kind
from workspaces.runner.specs import spec_of
from workspaces.store import StoreError

logger = logging.getLogger("handrail.runner")
RESTARTED = "the host restarted"
UNENDED = "It has ended by itself, and what is left of it could not be cleared away yet; that is tried again."
# What drivers say of an end that nobody asked for, as people are told it.
ENDED_WORDS = {
    "out of memory": "It ran out of memory, and its programs were ended.",
    RESTARTED: "The machine was restarted, and its programs ended with that.",
}


async def bring_down(job: Job, reason: str, *, thorough: bool = False) -> str:
    """End the programs and the Run, and take the end snapshot; words on a snapshot that is owed, or ""."""
    owner = await job.owner() if job.driver.capabilities.guest_files else None
    if owner is not None and await job.driver.alive(owner):
        # Its files can be reached as long as it is up.
        listened = await ports.of(job.driver, owner)
        await job.driver.quiet(owner)
        await _look_at_home(job, await job.open_run())
        owed = await end_snapshot(job, thorough=thorough, ports=listened)
        await end_run(job, reason)
        return owed
    listened = await end_run(job, reason)
    return await end_snapshot(job, thorough=thorough, ports=listened)


async def fall_asleep(job: Job, reason: str) -> str:
    """End the Run, and keep the memory of its programs where the driver can; else as bring_down."""
    if not job.driver.capabilities.memory:
        return await bring_down(job, reason)
    owner, known = await job.owner(), job.effect.progress
    if owner is None or not await job.driver.alive(owner):
        if "owed" in known and not await job.driver.why_no_memory(spec_of(job.workspace, job.effect.pk)):
            await sleepers.fall_asleep(job)  # the runner died when all was kept
            await end_run(job, reason, asleep=True)
            return known["owed"]
        return await bring_down(job, reason)
    await programs.end_services(job, await job.open_run())
    # Frozen from before the snapshot until it was compared with the files at the next start.
    await job.driver.freeze(owner)
    try:
        await _look_at_home(job, await job.open_run())
        owed = await end_snapshot(job, ports=await ports.of(job.driver, owner))
        await job.progress(owed=owed)
        failpoint("sleep.snapshot")
        await sleepers.doze(job)
        await job.driver.pause(owner, spec_of(job.workspace, owner.run_id))
        failpoint("sleep.kept")
        await sleepers.fall_asleep(job)
    except DriverError as error:
        logger.warning("%s sleeps without its memory: %s", job.workspace.key, error)
        return await bring_down(job, reason)
    await end_run(job, reason, asleep=True)
    return owed


async def forget_memory(job: Job, why: str):
    """Of one that is asleep: its programs will never go on, and nobody takes what they were given."""
    await job.driver.discard_memory(spec_of(job.workspace, job.effect.pk))
    await sleepers.forget(job, why)
    await job.thread(network.revoke_run_tokens, job.workspace.pk)


async def end_run(job: Job, reason: str, *, asleep: bool = False) -> list[dict]:
    """End the programs and the open Run, if there is one; the ports on which they listened.

    `asleep`: the memory of its programs is kept, and what they know has to be true again when they go on.
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
        await job.thread(_close, run, reason, asleep)
        failpoint("down.closed")
        if not job.driver.capabilities.guest_files:  # one in a guest was looked at while that was up
            await _look_at_home(job, run)
    return listened


async def _look_at_home(job: Job, run: Run):
    """A report, no more: whatever is wrong with it keeps nobody from ending a run."""
    try:
        async with job.live() as tree:
            await job.thread(leaks.look_at_home, job.workspace, tree, run.started_at, by=job.by)
    except (OSError, DriverError, StoreError, Unreadable):
        logger.exception("the home of %s could not be searched for secrets", job.workspace.pk)


def _close(run, reason, asleep):
    Run.objects.filter(pk=run.pk, ended_at=None).update(ended_at=clock.now(), end_reason=reason[:200])
    (network.suspend_run_tokens if asleep else network.revoke_run_tokens)(run.workspace_id)


async def end_snapshot(job: Job, **how) -> str:
    """Take the snapshot at the end of a run; words when it is owed, "" when it is there."""
    async with job.lock():
        try:
            async with job.live():
                await job.recover_tree()
                await job.snapshot("end", **how)
            failpoint("down.snapshot")
            return ""
        except (StoreError, DriverError, OSError) as error:
            logger.exception("the end snapshot of %s is owed", job.workspace.pk)
            return f"A snapshot is owed: {error}. The files are on the disk as they were."


class _Down(Kind):
    state: str
    verb: str
    reason: str
    before: tuple = (State.READY,)

    async def perform(self, job):
        workspace = await job.refresh()
        if workspace.state == self.state or (job.effect.phase != Phase.STARTED and _used_since(job)):
            return {"ok": True, "already": True}
        if workspace.state not in self.before:
            return {"ok": False, "reason": f"{workspace.key} {lifecycle.STATE_WORDS[workspace.state]}."}
        await job.started()
        if workspace.state == State.PAUSED:  # nothing runs, and the snapshot is there or owed already
            await forget_memory(job, "the workspace was stopped meanwhile.")
            return {"ok": True, "owed": workspace.owed}
        return {"ok": True, "owed": await self.end(job)}

    async def end(self, job) -> str:
        return await bring_down(job, self.reason)

    def finish(self, job, outcome):
        if not outcome["ok"] or outcome.get("already"):
            return
        owed = outcome["owed"]
        rows = Workspace.objects.filter(pk=job.workspace.pk)
        rows.update(state=self.state, reason=owed, owed=owed, vitals=at_rest(job.workspace))
        lifecycle.record(job.workspace, job.by, self.verb, {"owed": owed})


def _used_since(job) -> bool:
    """It was to sleep because nobody used it, and somebody did before its turn came."""
    since, last = job.args.get("unless_used_since"), job.workspace.last_active_at
    return bool(since and last and last > datetime.fromisoformat(since))


def at_rest(workspace) -> dict:
    """What is measured, of one whose programs are gone: nothing is frozen any more, and nothing listens."""
    return {name: value for name, value in workspace.vitals.items() if name not in ("frozen", "ports")}


class Pause(_Down):
    state, verb, reason = State.PAUSED, "workspace.paused", "paused"

    async def end(self, job) -> str:
        return await fall_asleep(job, self.reason)


class Stop(_Down):
    state, verb, reason = State.STOPPED, "workspace.stopped", "stopped"
    before = (State.READY, State.PAUSED)


class Ended(Kind):
    """A Run that was found dead: say why, take the snapshot, and leave the workspace stopped."""

    async def perform(self, job):
        workspace = await job.refresh()
        if workspace.state != State.READY:
            return {"ok": True, "already": True}
        run = await job.open_run()
        owner = await job.daemon.owner_of(job.driver, run.pk) if run else None
        if owner is not None and await job.driver.alive(owner):
            return {"ok": True, "already": True}
        await job.started()
        known = job.effect.progress.get("reason") or job.args.get("reason")
        reason = known or await self._why(job, owner)
        await job.progress(reason=reason)  # the driver's record, which knows, goes before the snapshot is there
        owed = await bring_down(job, reason, thorough=reason == RESTARTED)
        return {"ok": True, "reason": reason, "owed": owed}

    async def _why(self, job, owner) -> str:
        if owner is None:
            return "nothing is left of what ran"
        try:
            return await job.driver.end_reason(owner)
        except DriverError as error:
            return str(error)

    def finish(self, job, outcome):
        rows = Workspace.objects.filter(pk=job.workspace.pk, state=State.READY)
        if not outcome["ok"]:  # watching.py asks again
            words = f"{UNENDED} {outcome['reason']}"
            if rows.exclude(reason=words).update(reason=words):
                lifecycle.record(job.workspace, job.by, "workspace.end_failed", {"reason": words[:1000]})
            return
        if outcome.get("already"):
            rows.filter(reason__startswith=UNENDED).update(reason="")
            return
        reason, owed = outcome["reason"], outcome["owed"]
        words = f"{ENDED_WORDS.get(reason) or f'It ended by itself: {reason}.'} {owed}".strip()
        rows.update(state=State.STOPPED, reason=words, owed=owed, vitals=at_rest(job.workspace))
        lifecycle.record(job.workspace, job.by, "workspace.ended", {"reason": words[:1000], "owed": owed})


class Trash(Kind):
    """Stop it, keep everything in a last snapshot, and put it into the trash."""

    async def perform(self, job):
        workspace = await job.refresh()
        if workspace.trashed_at:
            return {"ok": True, "already": True}
        await job.started()
        if workspace.state == State.READY:
            return {"ok": True, "owed": await bring_down(job, "deleted")}
        await forget_memory(job, "the workspace went to the trash meanwhile.")
        return {"ok": True, "owed": await end_snapshot(job) if workspace.owed else ""}

    def finish(self, job, outcome):
        if outcome.get("already") or not outcome["ok"]:
            return
        with transaction.atomic():
            rows = Workspace.objects.filter(pk=job.workspace.pk, trashed_at=None)
            state = State.FAILED if job.workspace.state == State.FAILED else State.STOPPED
            gone = {"trashed_at": clock.now(), "purge_at": lifecycle.purge_date(), "owed": outcome["owed"]}
            rows.update(state=state, vitals=at_rest(job.workspace), **gone)
            lifecycle.record(job.workspace, job.by, "workspace.trashed", {"owed": outcome["owed"]})


class Purge(Kind):
    """The end of a deleted workspace: its folder and its snapshots go, the row stays as a tombstone."""

    async def perform(self, job):
        workspace = await job.refresh()
        if workspace.trashed_at is None or workspace.purge_at > await job.thread(clock.now):
            return {"ok": True, "already": True}
        await job.started()
        async with job.lock():
            await job.thread(_remove, places.folder_of(workspace.pk))
            await job.thread(_remove, archives.folder_of(workspace.pk))
        return {"ok": True}

    def finish(self, job, outcome):
        if outcome.get("already") or not outcome["ok"]:
            return
        workspace = job.workspace
        Workspace.objects.filter(pk=workspace.pk).update(purged_at=clock.now(), head=None, baseline=None)
        workspace.snapshots.all().delete()
        workspace.handed_secrets.all().delete()
        workspace.contacts.all().delete()
        workspace.allowances.all().delete()
        lifecycle.record(workspace, job.by, "workspace.purged", {"key": workspace.key})


def _remove(folder):
    if folder.exists():
        shutil.rmtree(folder)
