"""Create and resume: what brings a workspace up."""

import hashlib
import os
import shutil

from django.conf import settings
from django.db import transaction

from dashboard import clock
from dashboard.problems import Problem
from dashboard.strict_json import canonical
from workspaces import lifecycle, places, sources, uploads
from workspaces.drivers.base import DriverError, Limits, RunSpec
from workspaces.models import Manifest, Run, Snapshot, State, Workspace
from workspaces.runner import programs, snapshots
from workspaces.runner.job import Job, Kind
from workspaces.store import StoreError, import_archive, recover


class Failed(Exception):
    """Why a workspace could not be made, in words."""


def spec_of(workspace, run_id, *, phase="agent", home=None) -> RunSpec:
    """What the driver is asked to start for a workspace."""
    limits = workspace.environment.limits
    env = {"HANDRAIL_WORKSPACE": workspace.key}
    return RunSpec(
        run_id=str(run_id),
        workspace_id=str(workspace.pk),
        key=workspace.key,
        workspace=places.tree_of(workspace),
        home=home or places.folder_of(workspace.pk) / "home",
        limits=Limits(limits.get("memory_bytes"), limits.get("cpus"), limits.get("pids")),
        env=env,
        phase=phase,
        **_uid(workspace),
    )


def _uid(workspace) -> dict:
    # Only root can give a workspace a uid of its own; an ordinary user's workloads run as that user.
    if os.geteuid() != 0:
        return {}
    path = workspace.source.get("path")
    return {"uid": os.stat(path).st_uid if path else workspace.uid}


async def bring_up(job: Job, run_id=None) -> Run:
    """Start the agent phase: the Run's row first, then the driver."""
    run = await job.thread(_open_run, job.workspace, job.effect, run_id)
    spec = spec_of(job.workspace, run.pk)
    await job.driver.prepare(spec)
    try:
        owner = await job.driver.start(spec)
    except DriverError:
        await job.thread(_never_up, run)
        raise
    await job.thread(_up, run, owner)
    return run


def _open_run(workspace, effect, run_id) -> Run:
    found = Run.objects.filter(workspace=workspace, ended_at=None).first()
    return found or Run.objects.create(
        workspace=workspace, runner=effect.runner, epoch=effect.epoch, started_at=clock.now()
    )


def _never_up(run):
    Run.objects.filter(pk=run.pk).update(ended_at=clock.now(), end_reason="It could not be started.")


def _up(run, owner):
    Run.objects.filter(pk=run.pk).update(
        owner={"host": owner.host, "boot_id": owner.boot_id, "pid": owner.pid, "start_time": owner.start_time},
        ready_at=clock.now(),
    )


class Create(Kind):
    """An empty folder, a clone or a fork; the set-up script; the first snapshot; up."""

    async def perform(self, job):
        await job.started()
        await job.thread(_settle_here, job.effect)
        workspace = await job.refresh()
        try:
            await job.progress(step="files")
            await job.thread(_make_tree, workspace)
            if not workspace.source.get("path"):
                # Before the first snapshot: it holds the owners that the files will have.
                await job.driver.prepare(spec_of(workspace, f"setup-{job.effect.pk}"))
            if workspace.environment.setup and "fork" not in workspace.source:
                await self._set_up(job)
            await job.progress(step="snapshot")
            await job.snapshot("fork" if "fork" in workspace.source else "setup")
            if workspace.baseline is None:
                await job.thread(_set_baseline, workspace)
            note = await _up_or_why_not(job)
        except (Failed, sources.CloneFailed, DriverError, StoreError, Problem) as error:
            return {"ok": False, "reason": str(error)}
        return {"ok": True, "note": note}

    async def recover(self, job):
        """Nobody saw how far it got: it failed, and a retry begins from nothing."""
        await job.refresh()
        for owner in await job.driver.owners():
            if owner.workspace_id == str(job.workspace.pk):
                await job.driver.stop(owner)
        return {"ok": False, "reason": "The runner stopped while this was being made. Try again starts from nothing."}

    async def _set_up(self, job):
        workspace = job.workspace
        await job.thread(_move, workspace, State.CREATING, State.SETTING_UP, job.by)
        await job.progress(step="setup")
        run_id = f"setup-{job.effect.pk}"
        home = places.folder_of(workspace.pk) / "setup-home"
        await job.thread(_fresh, home)
        spec = spec_of(workspace, run_id, phase="setup", home=home)
        await job.driver.prepare(spec)
        owner = await job.driver.start(spec)
        try:
            ended = await programs.run(
                job,
                ["bash", "-eu", "-o", "pipefail", "-c", workspace.environment.setup],
                cwd="/workspace",
                env={"HANDRAIL_PHASE": "setup"},
                timeout_s=settings.HANDRAIL_SETUP_SECONDS,
                owner=owner,
            )
        finally:
            await job.driver.stop(owner)
            await job.driver.clear(owner)
            await job.thread(shutil.rmtree, home, ignore_errors=True)
        if not ended["ok"]:
            raise Failed(ended["reason"])
        if ended["exit_status"] != 0:
            said = await job.said(ended)
            note = "It runs without network in this version. Its last words:"
            raise Failed(f"The set-up script failed ({ended['words']}). {note}\n{said or '(none)'}")

    def finish(self, job, outcome):
        workspace = job.workspace
        if outcome["ok"]:
            _move(workspace, None, State.READY, job.by, verb="workspace.ready", reason=outcome["note"])
            return
        now = clock.now()
        Run.objects.filter(workspace=workspace, ended_at=None).update(ended_at=now, end_reason=outcome["reason"][:200])
        Workspace.objects.filter(pk=workspace.pk).update(state=State.FAILED, reason=outcome["reason"])
        lifecycle.record(workspace, job.by, "workspace.failed", {"reason": outcome["reason"][:1000]})


async def _up_or_why_not(job) -> str:
    """A folder of the user is of use without a run as well: it is gated and snapshotted, only commands need one."""
    try:
        await bring_up(job)
        return ""
    except DriverError as error:
        if job.driver.capabilities.isolation != "none":
            raise
        return f"Commands cannot run here: {error}"


def _settle_here(effect):
    """From now on this host has the workspace's files, and its runner alone carries out what concerns them."""
    Workspace.objects.filter(pk=effect.workspace_id).update(runner=effect.runner)


def _make_tree(workspace):
    """The files at the start; whatever a failed attempt left is removed first."""
    if workspace.source.get("path"):
        places.make_folders(workspace)
        return
    tree = places.make_folders(workspace) / "tree"
    _fresh(tree)
    if fork := workspace.source.get("fork"):
        origin = Snapshot.objects.get(pk=fork["id"])
        store = snapshots.store_of(workspace)
        store.restore(origin.tree_hex, snapshots.live_tree(workspace), journal=snapshots.journal_of(workspace))
    elif upload := workspace.source.get("upload"):
        with open(uploads.find(workspace.team_id, upload), "rb") as archive:
            import_archive(archive, tree, uploads.LIMITS)
    elif "git" in workspace.source:
        source = sources.check_git(workspace.source["git"], workspace.source.get("ref", ""))
        sha = sources.clone(source, tree)
        workspace.source = workspace.source | {"sha": sha}
        Workspace.objects.filter(pk=workspace.pk).update(source=workspace.source)


def _fresh(folder):
    if folder.exists():
        shutil.rmtree(folder)
    folder.mkdir(mode=0o755, parents=True)


def _set_baseline(workspace):
    Workspace.objects.filter(pk=workspace.pk, baseline=None).update(baseline=workspace.head)


def _move(workspace, before, after, by, verb=None, reason=""):
    with transaction.atomic():
        rows = Workspace.objects.filter(pk=workspace.pk)
        if before is not None:
            rows = rows.filter(state=before)
        rows.update(state=after, reason=reason, last_active_at=clock.now())
        lifecycle.record(workspace, by, verb or f"workspace.{after}")


class Resume(Kind):
    """Recover what a crash left, prove that the files are those that went to sleep, and bring it up."""

    async def perform(self, job):
        workspace = await job.refresh()
        if workspace.state == State.READY and await _is_up(job):
            return {"ok": True, "already": True}
        if workspace.state not in (State.PAUSED, State.STOPPED, State.READY):
            return {"ok": False, "reason": f"{workspace.key} {lifecycle.STATE_WORDS[workspace.state]}."}
        await job.started()
        async with job.lock():
            await job.thread(recover, snapshots.journal_of(workspace))
            proof = await job.thread(_prove, workspace)
        run = await bring_up(job)
        return {"ok": True, "run": str(run.pk), "proof": proof}

    def finish(self, job, outcome):
        workspace = job.workspace
        if not outcome["ok"]:
            Workspace.objects.filter(pk=workspace.pk).update(reason=outcome["reason"])
            lifecycle.record(workspace, job.by, "workspace.resume_failed", {"reason": outcome["reason"][:1000]})
            return
        if outcome.get("already"):
            return
        proof = outcome["proof"]
        Run.objects.filter(pk=outcome["run"]).update(proof_entries=proof["entries"], proof_differ=proof["differ"])
        Workspace.objects.filter(pk=workspace.pk).update(
            state=State.READY, reason="", proof=proof, last_active_at=clock.now()
        )
        body = {"format": 1, "workspace": workspace.key, "resumed_at": clock.now().isoformat(), "proof": proof}
        Manifest.objects.create(run_id=outcome["run"], body=body, sha256=hashlib.sha256(canonical(body)).hexdigest())
        verb = "workspace.resumed" if not proof["differ"] else "workspace.proof_failed"
        lifecycle.record(workspace, job.by, verb, proof)


async def _is_up(job) -> bool:
    owner = await job.owner()
    return owner is not None and await job.driver.alive(owner)


def _prove(workspace, full=False) -> dict:
    """{at, snapshot, entries, differ, names, how}: the live tree beside the newest snapshot."""
    if workspace.head is None:
        return {"at": clock.now().isoformat(), "snapshot": None, "entries": 0, "differ": 0, "names": [], "how": "none"}
    found = snapshots.store_of(workspace).compare(workspace.head.tree_hex, snapshots.live_tree(workspace), full=full)
    return {
        "at": clock.now().isoformat(),
        "snapshot": workspace.head.number,
        "entries": found.entries,
        "differ": len(found.differ),
        "names": [_name(entry) for entry in found.differ[:100]],
        "how": "full" if full else "stat, and content where stat differs",
    }


def _name(entry) -> str:
    path = entry if isinstance(entry, bytes) else getattr(entry, "path", entry)
    return path.decode("utf-8", "backslashreplace") if isinstance(path, bytes) else str(path)
