"""Create, and what brings a workspace up."""

import logging
import shutil
from functools import partial

from django.conf import settings
from django.db import transaction

from dashboard import clock
from dashboard.failpoints import failpoint
from dashboard.keyring import Unreadable
from dashboard.problems import Problem
from workspaces import capacity, isolation, lifecycle, network, places, secrets, sources, uploads
from workspaces.drivers.base import DriverError
from workspaces.models import Effect, Run, Runner, Snapshot, State, Workspace
from workspaces.runner import programs, roots, sleepers, snapshots
from workspaces.runner.job import Job, Kind
from workspaces.runner.specs import spec_of, uid_of
from workspaces.store import Cancelled, StoreError, import_archive

logger = logging.getLogger("handrail.runner")


class Failed(DriverError):
    """Why a workspace could not be made, in words."""


async def bring_up(job: Job, run_id=None, *, first=None) -> Run:
    """Start the agent phase: the Run's row first, then the driver.

    `first()` is done while the files can be reached and none of the workspace's programs move.
    """
    in_guest = job.driver.capabilities.guest_files  # only one that is up can be asked for its files
    if first is not None and not in_guest:
        await first()
    _must_hold_enough(job)
    if changed := await roots.ensure(job, run_set_up):
        await job.record("workspace.root_changed", {"words": changed})
    run = await job.thread(_open_run, job.workspace, job.effect, run_id)
    failpoint("up.row")
    spec = spec_of(job.workspace, run.pk)
    try:
        await job.driver.prepare(spec)
        owner = await _start(job, spec, run)
        await job.thread(_started, run, owner)
        await job.thread(_make_token, job.workspace, run)  # before any program of it can move
        if first is not None and in_guest:
            await first()
    except (DriverError, StoreError, Problem):
        await _give_up(job, run)
        raise
    failpoint("up.started")
    await job.daemon.network.open_for_run(run, owner, job.workspace)
    if job.driver.capabilities.memory:
        if run.cold:
            await sleepers.forget(job, f"the workspace was booted anew. {run.why_cold}")
        else:
            await sleepers.wake(job, run, owner.address)
            failpoint("up.woken")
        await job.driver.thaw(owner)
    await job.thread(_up, run)
    job.daemon.warm(job.driver, spec)
    return run


async def _start(job: Job, spec, run: Run):
    """Go on from kept memory, with its programs frozen, where there is one that fits; else boot."""
    run.why_cold = await job.driver.why_no_memory(spec)
    if not run.why_cold:
        try:
            owner = await job.driver.resume(spec)
            run.cold = False
            return owner
        except DriverError as error:
            run.why_cold = str(error)
            logger.warning("%s boots, its memory could not be used: %s", job.workspace.key, error)
    owner = await job.driver.start(spec)
    run.cold = not owner.began  # a runner that died here may have brought it up from its memory
    return owner


async def _give_up(job: Job, run: Run):
    owner = await job.daemon.owner_of(job.driver, run.pk)
    if owner is not None:
        await job.driver.stop(owner, grace_s=0.0)
        await job.driver.clear(owner)
    await job.thread(_never_up, run)


def _must_hold_enough(job: Job):
    environment, offered = job.workspace.environment, job.daemon.isolation_of(job.driver)
    if not isolation.is_enough(offered, environment.minimum_isolation):
        raise DriverError(isolation.too_little(environment.driver, offered, environment.minimum_isolation))


def _open_run(workspace, effect, run_id) -> Run:
    with transaction.atomic():
        Runner.objects.select_for_update().get(pk=effect.runner_id)  # what a host promises is counted one at a time
        found = Run.objects.filter(workspace=workspace, ended_at=None).first()
        if found is None:
            capacity.refuse_when_promised(workspace, effect.runner_id)
        return found or Run.objects.create(
            workspace=workspace, runner=effect.runner, epoch=effect.epoch, started_at=clock.now()
        )


def _never_up(run):
    Run.objects.filter(pk=run.pk).update(ended_at=clock.now(), end_reason="It could not be started.")
    network.suspend_run_tokens(run.workspace_id)  # memory may be kept still, of programs that have theirs


def _started(run, owner):
    names = ("host", "boot_id", "pid", "start_time", "image", "began")
    run.owner = {name: getattr(owner, name) for name in names}
    run.save(update_fields=["owner", "cold"])


def _make_token(workspace, run):
    try:
        network.make_run_token(workspace, run)
    except Unreadable as error:
        raise DriverError(f"Its secrets cannot be read. {error}") from error


def _up(run):
    Run.objects.filter(pk=run.pk).update(ready_at=clock.now())


class Create(Kind):
    """An empty folder, a clone or a fork; the set-up script; the first snapshot; up."""

    async def perform(self, job):
        await job.started()
        await job.thread(_settle_here, job.effect)
        workspace = await job.refresh()
        try:
            await job.progress(step="files")
            await job.thread(_make_tree, workspace, job.watch(step="files"))
            failpoint("create.tree")
            await roots.choose(job)
            if await job.thread(_is_unwanted, job.effect):  # what it runs on may have taken its time as well
                raise Cancelled("cancelled before it was set up")
            if "fork" not in workspace.source:  # from here on it cannot be stopped
                await job.progress(step="setup" if workspace.environment.setup else "snapshot")
            if not workspace.source.get("path") and not job.driver.capabilities.guest_files:
                # Before the first snapshot: it holds the owners that the files will have. A guest's get theirs there.
                await job.driver.prepare(spec_of(workspace, f"setup-{job.effect.pk}"))
            if workspace.environment.setup and "fork" not in workspace.source:
                await job.thread(_move, workspace, State.CREATING, State.SETTING_UP, job.by)
                await set_up(job)
            note = await _up_or_why_not(job, partial(_first_snapshot, job))
        except Cancelled:
            await job.thread(_fresh, places.folder_of(workspace.pk) / "tree")
            return {"ok": False, "cancelled": True, "reason": "It was stopped as asked. Nothing of it was kept."}
        except (Failed, sources.CloneFailed, DriverError, StoreError, Problem) as error:
            return {"ok": False, "reason": str(error)}
        return {"ok": True, "note": note}

    async def recover(self, job):
        """Nobody saw how far it got: it failed, and a retry begins from nothing."""
        await job.refresh()
        for owner in await job.driver.owners():
            if owner.workspace_id == str(job.workspace.pk):
                await job.driver.stop(owner)
                await job.driver.clear(owner)
        return {"ok": False, "reason": "The runner stopped while this was being made. Try again starts from nothing."}

    def finish(self, job, outcome):
        workspace = job.workspace
        if outcome["ok"]:
            _move(workspace, None, State.READY, job.by, verb="workspace.ready", reason=outcome["note"])
            return
        now = clock.now()
        Run.objects.filter(workspace=workspace, ended_at=None).update(ended_at=now, end_reason=outcome["reason"][:200])
        Workspace.objects.filter(pk=workspace.pk).update(state=State.FAILED, reason=outcome["reason"])
        lifecycle.record(workspace, job.by, "workspace.failed", {"reason": outcome["reason"][:1000]})


async def set_up(job: Job):
    """Do what the environment's set-up has to do in the live tree, and keep what it installs outside. Raises Failed."""
    async with roots.set_up(job) as setup:
        await setup.begin()
        if setup.script:
            await run_set_up(job, setup.script, look=setup.look, keep=setup.keep)


async def run_set_up(job: Job, script: str, *, look=None, keep=None, tree=None):
    """Run the script in a Run and a home of its own, with the live tree or another one as /workspace. Raises Failed.

    `look(owner)` is called before it; `keep(owner)` once it went through and was stopped, or made quiet where the Run
    is what its files are reached through.
    """
    workspace = job.workspace
    if lacks := await job.thread(secrets.problems, workspace.environment, "setup"):
        raise Failed(f"The set-up script was not run: {lacks}. Set it under Environments, Secrets, and try again.")
    await job.progress(step="setup")
    run_id = f"setup-{job.effect.pk}"
    home = places.folder_of(workspace.pk) / "setup-home"
    await job.thread(_fresh, home)
    spec = spec_of(workspace, run_id, phase="setup", home=home, tree=tree)
    await job.driver.prepare(spec)
    owner = await job.driver.start(spec)
    try:
        if trouble := await job.daemon.network.open(owner, workspace, "setup"):
            raise Failed(trouble)
        if look is not None:
            await look(owner)
        ended = await programs.run(
            job,
            _strict(owner.address.shell, script),
            cwd="/workspace",
            env={"HANDRAIL_PHASE": "setup"},
            timeout_s=settings.HANDRAIL_SETUP_SECONDS,
            owner=owner,
            phase="setup",
        )
        if job.driver.capabilities.guest_files:
            await job.driver.quiet(owner)
        else:
            await job.driver.stop(owner)
        if not ended["ok"]:
            raise Failed(ended["reason"])
        if ended["exit_status"] != 0:
            said = await job.said(ended)
            note = "It reaches the hosts on the set-up's list and no others. Its last words:"
            raise Failed(f"The set-up script failed ({ended['words']}). {note}\n{said or '(none)'}")
        if keep is not None:
            await keep(owner)
    finally:
        await job.driver.stop(owner)
        await job.daemon.network.close(owner.run_id)
        await job.driver.clear(owner)
        await job.thread(shutil.rmtree, home, ignore_errors=True)


def _strict(shell: str, script: str) -> list[str]:
    """The script for this shell, ended by its first command that fails."""
    return [shell, "-eu", *(["-o", "pipefail"] if shell.endswith("/bash") else []), "-c", script]


async def _first_snapshot(job):
    workspace = job.workspace
    if "fork" in workspace.source:
        await _take_over(job)
    await job.progress(step="snapshot")
    await job.snapshot("fork" if "fork" in workspace.source else "setup")
    failpoint("create.snapshot")
    if workspace.baseline is None:
        await job.thread(_set_baseline, workspace)


async def _take_over(job):
    """The files of the snapshot that it was forked from, as its own, whose ever they were in the other one."""
    workspace = job.workspace
    origin = await job.thread(Snapshot.objects.get, pk=workspace.source["fork"]["id"])
    store, journal = snapshots.store_of(workspace), snapshots.journal_of(workspace)
    uid = None if job.driver.capabilities.guest_files else uid_of(workspace).get("uid")  # a guest has users of its own
    owner = None if uid is None else (uid, uid)
    async with job.live() as tree:
        how = {"journal": journal, "owner": owner} | job.watch(step="files")
        await job.thread(store.restore, origin.tree_hex, tree, **how)


async def _up_or_why_not(job, first) -> str:
    """A folder of the user is of use without a run as well: it is gated and snapshotted, only commands need one."""
    try:
        await bring_up(job, first=first)
        return ""
    except DriverError as error:
        if job.driver.capabilities.isolation != "none":
            raise
        return f"Commands cannot run here: {error}"


def _settle_here(effect):
    """From now on this host has the workspace's files, and its runner alone carries out what concerns them."""
    Workspace.objects.filter(pk=effect.workspace_id).update(runner=effect.runner)


def _is_unwanted(effect) -> bool:
    return Effect.objects.filter(pk=effect.pk).exclude(cancelled_at=None).exists()


def _make_tree(workspace, watch: dict):
    """The files at the start, but for a fork's; whatever a failed attempt left is removed first."""
    if workspace.source.get("path"):
        places.make_folders(workspace)
        return
    tree = places.make_folders(workspace) / "tree"
    _fresh(tree)
    if upload := workspace.source.get("upload"):
        with open(uploads.find(workspace.team_id, upload), "rb") as archive:
            import_archive(archive, tree, uploads.LIMITS, **watch)
    elif "git" in workspace.source:
        source = sources.check_git(workspace.source["git"], workspace.source.get("ref", ""))
        sha = sources.clone(source, tree, cancel=watch["cancel"])
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
