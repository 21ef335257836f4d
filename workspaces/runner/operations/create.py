"""Create a workspace, and start one (`bring_up`, also used by resume and rebuild)."""

import logging
import shutil
import time
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

from django.conf import settings
from django.db import transaction

from dashboard.database import clock
from dashboard.keys.keyring import Unreadable
from dashboard.models import Team
from dashboard.problems import Problem
from dashboard.workers.failpoints import failpoint
from workspaces import lifecycle, secrets
from workspaces.drivers.base import DriverError
from workspaces.host import paths, run_leads
from workspaces.models import EndCode, Operation, ReasonCode, Run, Runner, Snapshot, State, Workspace
from workspaces.provisioning import capacity, isolation, placement, source_history
from workspaces.provisioning.git import addresses
from workspaces.provisioning.scripts import UNTIL_A_FAILURE, of_setup, shell_words
from workspaces.runner import leashes, notes, programs, repository_files, rootfs, snapshots, source_files
from workspaces.runner.installed import put
from workspaces.runner.job import Job, Kind
from workspaces.runner.reconcile import suspended
from workspaces.runner.refusals import Refused
from workspaces.runner.run_spec import agents_spec, spec_of, uid_of
from workspaces.runner.shown_manifest import show_first, with_manifest
from workspaces.runner.steps import from_checkpoint
from workspaces.runner.steps.shown_snapshots import shown
from workspaces.services import run_tokens
from workspaces.store import Cancelled, LocalTree, StoreError

logger = logging.getLogger("handrail.runner")
BEFORE_SET_UP = (None, "files", "image", "pull")  # steps of a creation in which no setup script has run
MOST_BEGUN = 3  # times that one creation is begun whose runner stops: it may be what stops it


class Failed(DriverError):
    """Setup failed; the message is shown to people."""


async def bring_up(job: Job, run_id=None, *, first=None) -> Run:
    """Start the agent phase: create the Run's row, then start it with the driver. Return the Run.

    `first()` is awaited while the files can be reached and no program of the workspace runs.
    """
    in_guest = job.driver.capabilities.files_need_run  # a guest's files can be reached only while it is up
    if first is not None and not in_guest:
        await first()
    _check_isolation(job)
    if changed := await rootfs.ensure(job, run_set_up):
        await job.record("workspace.root_changed", {"words": changed})
    await put.restore_layer(job)
    run = await job.thread(_open_run, job.workspace, job.operation, run_id)
    failpoint("up.row")
    spec = await job.thread(agents_spec, job.workspace, run.pk)
    spec = await job.thread(with_manifest, spec, job.driver, job.workspace)
    try:
        spec = replace(spec, snapshots=await job.thread(shown, job.workspace, job.args.get("snapshots", ())))
        await job.driver.prepare(spec)
        owner = await _start(job, spec, run)
        await job.thread(save_owner, run, owner)
        if job.driver.capabilities.elsewhere:
            await job.thread(_keep_lead, job.workspace, run, await job.driver.what_leads(owner))
        await job.thread(_make_token, job.workspace, run)  # before any of its programs can run
        if first is not None and in_guest:
            await first()
            if not spec.manifest:
                await job.thread(show_first, job.driver, run.pk, job.workspace)
    except (DriverError, StoreError, Problem):
        await _give_up(job, run)
        raise
    failpoint("up.started")
    await job.daemon.network.open_for_run(run, owner, job.workspace)
    if job.driver.capabilities.memory:
        if run.cold:
            await suspended.discard(job, f"the workspace was booted anew. {run.why_cold}")
        else:
            await suspended.resume(job, run, owner.address)
            failpoint("up.woken")
        await job.driver.thaw(owner)
    await job.thread(_mark_ready, run, job.setup_seconds)
    job.daemon.warm(job.driver, spec, is_new=job.operation.kind in ("create", "rebuild"))
    return run


async def _start(job: Job, spec, run: Run):
    """Resume from kept memory, with the programs frozen, if there is one that fits; otherwise boot.

    Set `run.cold` and `run.why_cold`. Return the driver's record.
    """
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
    run.cold = not owner.began  # a runner that died at this point may have resumed it from memory
    return owner


async def _give_up(job: Job, run: Run):
    owner = await job.daemon.owner_of(job.driver, run.pk)
    if owner is not None:
        await job.driver.stop(owner, grace_s=0.0)
        await job.driver.clear(owner)
    await job.thread(_mark_not_started, run)


def _check_isolation(job: Job):
    environment, offered = job.workspace.environment, job.daemon.isolation_of(job.driver, job.workspace.environment)
    if not isolation.is_enough(offered, environment.minimum_isolation):
        raise DriverError(isolation.too_little(environment.driver, offered, environment.minimum_isolation))


def _open_run(workspace, operation, run_id) -> Run:
    with transaction.atomic():
        Runner.objects.locked().get(pk=operation.runner_id)  # serializes the capacity check of a host
        found = Run.objects.filter(workspace=workspace, ended_at=None).first()
        if found is None:
            capacity.refuse_when_promised(workspace, operation.runner_id)
        return found or Run.objects.create(
            workspace=workspace,
            runner=operation.runner,
            epoch=operation.epoch,
            lead_epoch=workspace.lead_epoch,
            started_at=clock.now(),
        )


def _mark_not_started(run, code=EndCode.NOT_STARTED):
    Run.objects.filter(pk=run.pk).end(code)
    run_tokens.suspend(run.workspace_id)  # not revoked: programs in kept memory may still hold them


def save_owner(run, owner):
    names = ("host", "boot_id", "pid", "start_time", "image", "began")
    run.owner = {name: getattr(owner, name) for name in names}
    run.save(update_fields=["owner", "cold"])


def _make_token(workspace, run):
    with _readable():
        run_tokens.make(workspace, run)


def _keep_lead(workspace, run, needed):
    with _readable():
        run_leads.keep(run, needed, leashes.authority_of(workspace))


@contextmanager
def _readable():
    try:
        yield
    except Unreadable as error:
        raise DriverError(f"Its secrets cannot be read. {error}") from error


def _mark_ready(run, setup_seconds):
    Run.objects.filter(pk=run.pk).update(ready_at=clock.now(), setup_seconds=setup_seconds)


class Create(Kind):
    """Make the files (empty, upload, clone or fork), run setup, take the first snapshot, and start the workspace."""

    async def perform(self, job):
        await job.mark_started()
        await job.thread(placement.bind, job.operation.workspace_id, job.operation.runner_id)
        workspace = await job.refresh()
        try:
            await job.progress(step="files")
            await job.thread(_make_tree, workspace, job.watch(step="files"))
            failpoint("create.tree")
            await rootfs.choose(job)
            await from_checkpoint.restore_files_for_fork(job)
            if await job.thread(_is_cancelled, job.operation):  # building the image may have taken long as well
                raise Cancelled("cancelled before it was set up")
            if workspace.environment.setup and _runs_set_up(workspace):
                await job.thread(_keep_source, workspace)
            if _runs_set_up(workspace):  # from here on it cannot be cancelled
                await job.progress(step="setup" if workspace.environment.setup else "snapshot")
            if not workspace.own_folder and not job.driver.capabilities.files_need_run:
                # Before the first snapshot, which records the final file owners. A guest sets them inside.
                await job.driver.prepare(spec_of(workspace, f"setup-{job.operation.pk}"))
            if workspace.environment.setup and _runs_set_up(workspace):
                await _give_files_to_set_up(job)
                await job.thread(_move, workspace, State.CREATING, State.SETTING_UP, job.by)
                await set_up(job)
            note = await _bring_up_or_explain(job, partial(_first_snapshot, job))
        except Cancelled:
            await job.thread(_empty_folder, paths.folder_of(workspace.pk) / "tree")
            raise
        return {"ok": True, "note": note}

    async def recover(self, job):
        """Clear what was started and start over; fail if a program of people may have run, for them to try again."""
        workspace = await job.refresh()
        for owner in await job.driver.records():
            if owner.workspace_id == str(workspace.pk):
                await job.driver.stop(owner)
                await job.driver.clear(owner)
        begun = job.operation.progress.get("begun", 1)
        if begun < MOST_BEGUN and _has_run_nothing(job):
            if (run := await job.open_run()) is not None:
                await job.thread(_mark_not_started, run, EndCode.RUNNER_STOPPED)
            await job.progress(begun=begun + 1)
            return await self.perform(job)
        words = "The runner stopped while creating it. Try again to start over."
        raise Refused(words, ReasonCode.RUNNER_STOPPED)

    def finish(self, job, outcome):
        workspace = job.workspace
        if outcome["ok"]:
            _move(workspace, None, State.READY, job.by, verb="workspace.ready", reason=outcome["note"])
            return
        Run.objects.filter(workspace=workspace, ended_at=None).end(EndCode.NOT_STARTED, outcome["reason"])
        Workspace.objects.filter(pk=workspace.pk).update(state=State.FAILED, reason=outcome["reason"])
        lifecycle.record(workspace, job.by, "workspace.failed", {"reason": outcome["reason"][:1000]})


async def set_up(job: Job):
    """Run the environment's setup in the live tree and keep what it installs outside. Raise Failed."""
    async with rootfs.set_up(job) as setup:
        await setup.begin()
        if setup.script:
            await run_set_up(job, setup.script, before=setup.scan_before, keep=setup.keep)


async def run_set_up(job: Job, script: str, *, before=None, keep=None, tree=None):
    """Run the setup script in its own Run and home, with the live tree or `tree` as /workspace. Raise Failed.

    `before(owner)` is awaited before the script; `keep(owner)` after it succeeded and its programs were ended.
    """
    workspace = job.workspace
    if lacks := await job.thread(secrets.problems, workspace.environment, "setup"):
        raise Failed(f"The setup script was not run: {lacks}. Set it under Environments › Secrets and try again.")
    await job.progress(step="setup")
    run_id = f"setup-{job.operation.pk}"
    home = paths.folder_of(workspace.pk) / "setup-home"
    await job.thread(_empty_folder, home)
    spec = spec_of(workspace, run_id, phase="setup", home=home, tree=tree)
    await job.driver.prepare(spec)
    owner = await job.driver.start(spec)
    try:
        if trouble := await job.daemon.network.open(owner, workspace, "setup"):
            raise Failed(trouble)
        if before is not None:
            await before(owner)
        await _run_script(job, owner, script)
        if keep is not None:
            await keep(owner)
    finally:
        await job.driver.stop(owner)
        await job.daemon.network.close(owner.run_id)
        await job.driver.clear(owner)
        await job.thread(shutil.rmtree, home, ignore_errors=True)


async def _run_script(job: Job, owner, script: str):
    """Run the setup script and end its programs. Raise Failed with the end of its output."""
    began = time.monotonic()
    ended = await programs.run(
        job,
        [owner.address.shell, *UNTIL_A_FAILURE, of_setup(script, job.driver.capabilities)],
        cwd="/workspace",
        env={"HANDRAIL_PHASE": "setup"},
        timeout_s=settings.HANDRAIL_SETUP_SECONDS,
        owner=owner,
        phase="setup",
    )
    job.setup_seconds = round(time.monotonic() - began, 3)
    await job.driver.end_programs(owner)
    if not ended["ok"]:
        raise Failed(ended["reason"])
    if ended["exit_status"] != 0:
        raise Failed(_why_it_failed(ended, await job.output_tail(ended)))


def _why_it_failed(ended: dict, output: str) -> str:
    words = f"{ended['words']}{shell_words(ended['exit_status'])}"
    note = "It ends at the first command that fails, and can reach only the hosts allowed for setup. Last output:"
    return f"The setup script failed ({words}). {note}\n{output or '(none)'}"


def _has_run_nothing(job) -> bool:
    """Return whether no setup script and no program of a checkpoint can have run in a creation so far."""
    if from_checkpoint.checkpoint_id_of(job.workspace):
        return False
    return not job.workspace.environment.setup or job.operation.progress.get("step") in BEFORE_SET_UP


def _runs_set_up(workspace) -> bool:
    """Return whether the environment's setup runs, if it has one: a fork has what it did, unless under another one."""
    return "was" in workspace.source.get("fork", {"was": ""})


async def _give_files_to_set_up(job):
    """Put the files of a fork under another environment in place, and keep them as they are before its setup."""
    if "fork" not in job.workspace.source:
        return
    async with job.lock(), job.open_tree():
        await _restore_origin(job)
        await job.snapshot("fork", f"before the setup of {job.workspace.environment.name}")
    failpoint("create.given")


async def _first_snapshot(job):
    workspace = job.workspace
    is_set_up = bool(workspace.environment.setup) and _runs_set_up(workspace)
    is_fork = "fork" in workspace.source and not is_set_up
    async with job.open_tree() as tree:  # one, so that the snapshot need not read what the restore has made
        if is_fork and not from_checkpoint.checkpoint_id_of(workspace):
            await _restore_origin(job)
        await job.thread(repository_files.save_suggestions, workspace, tree)
        await job.thread(notes.give_lessons, workspace, tree)
        await job.progress(step="snapshot")
        await job.snapshot("fork" if is_fork else "setup")
    failpoint("create.snapshot")
    if source_history.TREE not in workspace.source:
        await job.thread(_name_source, workspace, workspace.head.tree_hex)
    if workspace.baseline is None:
        await job.thread(_set_baseline, workspace)


async def _restore_origin(job):
    """Restore the files of the snapshot this workspace was forked from, owned by this workspace's user.

    They share their blocks with those of the origin if that is on this host, and its file system can do that.
    """
    workspace = job.workspace
    rows = Snapshot.objects.select_related("workspace__environment")
    origin = await job.thread(rows.get, pk=workspace.source["fork"]["id"])
    store, journal = await job.thread(snapshots.store_of, workspace), snapshots.journal_of(workspace)
    owner = job.driver.file_owner(uid_of(workspace).get("uid"))
    async with job.open_tree() as tree:
        lender = await job.thread(snapshots.tree_at_rest, job.driver, origin.workspace)
        how = {"journal": journal, "owner": owner, "lender": lender} | job.watch(step="files")
        await job.thread(store.restore, origin.tree_hex, tree, **how)


async def _bring_up_or_explain(job, first) -> str:
    """Start the workspace. Return "" or a note for people.

    It says why a connected folder could not be started, or why the programs of a checkpoint did not go on in a fork.
    A user's own folder is useful without a Run: it is gated and snapshotted, and only commands need a Run.
    """
    try:
        run = await bring_up(job, first=first)
        return from_checkpoint.why_booted(job.workspace, run)
    except DriverError as error:
        if not job.driver.capabilities.own_folder:
            raise
        return f"Commands cannot run here: {error}"


def _is_cancelled(operation) -> bool:
    return Operation.objects.filter(pk=operation.pk).exclude(cancelled_at=None).exists()


def _make_tree(workspace, watch: dict):
    """Make the initial files (a fork's come later), after removing those of a failed attempt."""
    if workspace.own_folder:
        paths.make_folders(workspace)
        return
    tree = paths.make_folders(workspace) / "tree"
    _empty_folder(tree)
    told = source_files.fill(workspace, tree, watch)
    if told:
        kept = {name: value for name, value in workspace.source.items() if name not in addresses.TOLD}
        workspace.source = kept | told
        Workspace.objects.filter(pk=workspace.pk).update(source=workspace.source)


def _keep_source(workspace):
    """Store the files of the source before the setup script adds its own."""
    tree = LocalTree(paths.folder_of(workspace.pk) / "tree")
    _name_source(workspace, snapshots.store_of(workspace).snapshot(tree).tree)


def _name_source(workspace, tree: str):
    """Name the source's tree, unless something else is among its files: a fork, a folder, or carried artifacts."""
    if workspace.source.keys() & {"git", "upload"} and not workspace.source.get("artifacts"):
        workspace.source = workspace.source | {source_history.TREE: tree}
        Workspace.objects.filter(pk=workspace.pk).update(source=workspace.source)


def _empty_folder(folder):
    if folder.exists():
        shutil.rmtree(folder)
    folder.mkdir(mode=0o755, parents=True)


def _set_baseline(workspace):
    Workspace.objects.filter(pk=workspace.pk, baseline=None).update(baseline=workspace.head)


def _move(workspace, before, after, by, verb=None, reason=""):
    with Team.objects.turn(workspace.team_id):
        rows = Workspace.objects.filter(pk=workspace.pk)
        if before is not None:
            rows = rows.filter(state=before)
        rows.update(state=after, reason=reason, last_active_at=clock.now())
        lifecycle.record(workspace, by, verb or f"workspace.{after}")
