"""Pause, stop, crash and trash: what ends a Run. Each leaves a snapshot, or says that one is owed."""

import logging
import shutil

from django.db import transaction

from dashboard import clock
from workspaces import lifecycle, places
from workspaces.models import Run, State, Workspace
from workspaces.runner import snapshots
from workspaces.runner.job import Job, Kind
from workspaces.store import StoreError, recover

logger = logging.getLogger("handrail.runner")


async def bring_down(job: Job, reason: str) -> str:
    """End the programs and the Run, then take the end snapshot; words on a snapshot that is owed, or ""."""
    run = await job.open_run()
    if run is not None:
        owner = await job.daemon.owner_of(job.driver, run.pk)
        if owner is not None:
            await job.driver.stop(owner)
            await job.driver.clear(owner)
        await job.thread(_close, run, reason)
    return await end_snapshot(job)


def _close(run, reason):
    Run.objects.filter(pk=run.pk, ended_at=None).update(ended_at=clock.now(), end_reason=reason[:200])


async def end_snapshot(job: Job) -> str:
    """Take the snapshot at the end of a run; words when it is owed, "" when it is there."""
    async with job.lock():
        try:
            await job.thread(recover, snapshots.journal_of(job.workspace))
            await job.snapshot("end")
            return ""
        except (StoreError, OSError) as error:
            logger.exception("the end snapshot of %s is owed", job.workspace.pk)
            return f"A snapshot is owed: {error}. The files are on the disk as they were."


class _Down(Kind):
    state: str
    verb: str
    reason: str
    before: tuple = (State.READY,)

    async def perform(self, job):
        workspace = await job.refresh()
        if workspace.state == self.state:
            return {"ok": True, "already": True}
        if workspace.state not in self.before:
            return {"ok": False, "reason": f"{workspace.key} {lifecycle.STATE_WORDS[workspace.state]}."}
        await job.started()
        if workspace.state == State.PAUSED:  # nothing runs, and the snapshot is there
            return {"ok": True, "owed": ""}
        return {"ok": True, "owed": await bring_down(job, self.reason)}

    def finish(self, job, outcome):
        if not outcome["ok"] or outcome.get("already"):
            return
        Workspace.objects.filter(pk=job.workspace.pk).update(state=self.state, reason=outcome["owed"])
        lifecycle.record(job.workspace, job.by, self.verb, {"owed": outcome["owed"]})


class Pause(_Down):
    state, verb, reason = State.PAUSED, "workspace.paused", "paused"


class Stop(_Down):
    state, verb, reason = State.STOPPED, "workspace.stopped", "stopped"
    before = (State.READY, State.PAUSED)


class Ended(Kind):
    """A Run that was found dead: say why, take the snapshot, and leave the workspace stopped."""

    async def perform(self, job):
        workspace = await job.refresh()
        run = await job.open_run()
        if run is None or workspace.state != State.READY:
            return {"ok": True, "already": True}
        owner = await job.daemon.owner_of(job.driver, run.pk)
        if owner is not None and await job.driver.alive(owner):
            return {"ok": True, "already": True}
        await job.started()
        reason = await job.driver.end_reason(owner) if owner else "Nothing is known of how it ended."
        owed = await bring_down(job, reason)
        return {"ok": True, "reason": reason, "owed": owed}

    def finish(self, job, outcome):
        if outcome.get("already") or not outcome["ok"]:
            return
        words = f"It ended by itself: {outcome['reason']}"
        words = f"{words} {outcome['owed']}".strip()
        Workspace.objects.filter(pk=job.workspace.pk, state=State.READY).update(state=State.STOPPED, reason=words)
        lifecycle.record(job.workspace, job.by, "workspace.ended", {"reason": words[:1000]})


class Trash(Kind):
    """Stop it, keep everything in a last snapshot, and put it into the trash."""

    async def perform(self, job):
        workspace = await job.refresh()
        if workspace.trashed_at:
            return {"ok": True, "already": True}
        await job.started()
        owed = await bring_down(job, "deleted") if workspace.state == State.READY else ""
        return {"ok": True, "owed": owed}

    def finish(self, job, outcome):
        if outcome.get("already") or not outcome["ok"]:
            return
        with transaction.atomic():
            rows = Workspace.objects.filter(pk=job.workspace.pk, trashed_at=None)
            state = State.FAILED if job.workspace.state == State.FAILED else State.STOPPED
            rows.update(trashed_at=clock.now(), purge_at=lifecycle.purge_date(), state=state)
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
        return {"ok": True}

    def finish(self, job, outcome):
        if outcome.get("already") or not outcome["ok"]:
            return
        workspace = job.workspace
        Workspace.objects.filter(pk=workspace.pk).update(purged_at=clock.now(), head=None, baseline=None)
        workspace.snapshots.all().delete()
        lifecycle.record(workspace, job.by, "workspace.purged", {"key": workspace.key})


def _remove(folder):
    if folder.exists():
        shutil.rmtree(folder)
