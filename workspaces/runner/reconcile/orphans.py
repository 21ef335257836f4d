"""Reconcile what runs on this host with the database.

A sandbox whose row is certainly over is stopped and cleared. A workspace that is marked up without a Run is ended with
a snapshot. What cannot be attributed is left alone and reported, on the Status page and by `doctor`. Nothing is ever
restarted here.
"""

import logging
import os
from pathlib import Path
from uuid import UUID

from dashboard.database.one_statement import exist
from dashboard.models import Actor
from workspaces import lifecycle
from workspaces.drivers import cgroups
from workspaces.drivers.base import DriverError, RunRecord
from workspaces.host import paths
from workspaces.models import EndCode, Operation, Run, Runner, State, Workspace
from workspaces.runner.reconcile import liveness, suspended
from workspaces.shim import client

logger = logging.getLogger("handrail.runner")
INTERVAL_S = 15.0  # so that an orphan is resolved well within a minute
RUNNER = Actor.system("runner")
OPERATION_PREFIXES = (
    "setup-",
    "reader-",
    "rehearse-",
)  # prefixes of run ids that belong to one operation; its id follows
KNOWN, OVER, UNKNOWN = "known", "over", "unknown"


async def sweep(daemon):
    unclear: list[str] = []
    for driver in await daemon.drivers_here():
        try:
            owners = await driver.records()
        except DriverError as error:
            unclear.append(f"{driver.name}: {error}")
            continue
        for owner in owners:
            if words := await _resolve(daemon, driver, owner):
                unclear.append(words)
    has_suspended = await daemon.thread(_tidy_rows, daemon.row)
    if daemon.up.runs:
        unclear += await _programs_without_operation(daemon)
    if has_suspended:
        await suspended.sweep(daemon)
    if unclear != daemon.row.unclear:
        daemon.row.unclear = unclear
        await daemon.thread(Runner.objects.filter(pk=daemon.row.pk).update, unclear=unclear)


def _tidy_rows(runner) -> bool:
    """End what is marked up and is not, and remove its control groups; return whether a program may be suspended."""
    over = _over(runner)
    never_up, alone, has_groups, programs = exist(_never_up(runner), _alone(runner), over, suspended.started(runner))
    if never_up or alone:
        _rows_without_runs(runner)
    if has_groups:
        _remove_dead_cgroups(over)
    return programs


async def _resolve(daemon, driver, owner: RunRecord) -> str:
    """Stop and clear a sandbox that is over. Return a message if it is unknown or cannot be cleared, else ""."""
    standing = await daemon.thread(_standing, owner)
    if standing == KNOWN:
        return ""
    try:
        alive = await driver.alive(owner)
        if standing == UNKNOWN:
            what = "runs" if alive else "has left its record"
            return f"{owner.run_id} of {driver.name} {what} here, and the database knows neither it nor its workspace."
        if alive:
            await driver.stop(owner)
            # Logged before its record is cleared: afterwards nothing here knows that it ever ran.
            logger.warning("stopped %s, which no open row knew of", owner.run_id)
            await daemon.thread(
                _record_stopped, owner, "It was still running after it should have ended, and was stopped."
            )
        await driver.clear(owner)
    except DriverError as error:
        return f"{owner.run_id} of {driver.name} should be gone, and is not: {error}"
    return ""


def _standing(owner: RunRecord) -> str:
    """Return whether a driver's record belongs to something open (KNOWN), to something OVER, or is UNKNOWN."""
    if not owner.workspace_id:
        return KNOWN  # a driver's own, which belongs to no workspace yet
    of_operation = owner.run_id.startswith(OPERATION_PREFIXES)
    run_id = _uuid(owner.run_id.partition("-")[2] if of_operation else owner.run_id)
    workspace_id = _uuid(owner.workspace_id)
    if workspace_id is None or run_id is None:
        return UNKNOWN
    if Operation.objects.open().filter(exclusive=True, workspace=workspace_id).exists():
        return KNOWN  # that operation starts or ends it just now
    if of_operation:
        if Operation.objects.open().filter(pk=run_id).exists():
            return KNOWN
        return OVER if Operation.objects.filter(pk=run_id).exists() else UNKNOWN
    run = Run.objects.filter(pk=run_id).first()
    if run is not None:
        return KNOWN if run.ended_at is None else OVER
    return OVER if Workspace.objects.filter(pk=workspace_id).exists() else UNKNOWN


def _record_stopped(owner: RunRecord, words: str):
    workspace = Workspace.objects.filter(pk=owner.workspace_id).first()
    if workspace is not None:
        lifecycle.record(workspace, RUNNER, "workspace.orphan_stopped", {"reason": words, "run": owner.run_id})


def _busy():
    return Operation.objects.open().filter(exclusive=True).values("workspace")


def _never_up(runner):
    return Run.objects.filter(runner=runner, ended_at=None, ready_at=None).exclude(workspace__in=_busy())


def _alone(runner):
    """Return the workspaces that are marked up without a Run; a connected folder needs none."""
    up = Run.objects.filter(ended_at=None).values("workspace")
    rows = Workspace.objects.kept().not_connected_folders().filter(runner=runner, state=State.READY)
    return rows.exclude(pk__in=up).exclude(pk__in=_busy())


def _rows_without_runs(runner):
    """End Runs that never came up, and workspaces marked up without a Run, unless an operation is working on them."""
    _never_up(runner).end(EndCode.NEVER_UP)
    for workspace in _alone(runner):
        last = workspace.runs.order_by("-started_at").values_list("pk", flat=True).first()
        liveness.request_close(workspace, f"{last or workspace.pk}:without a run")


async def _programs_without_operation(daemon) -> list[str]:
    """Cancel programs whose operation is over. Return a message for each that does not answer."""
    unclear = []
    for workspace_id, operation_id in await daemon.thread(_stray_programs, daemon.row):
        folder = paths.program_of(workspace_id, operation_id)
        try:
            await client.cancel(folder)
        except DriverError as error:
            unclear.append(
                f"The program {operation_id} is still running after it should have ended, and does not respond: {error}"
            )
            continue
        workspace = await daemon.thread(Workspace.objects.get, pk=workspace_id)
        data = {
            "reason": "A program was still running after its request had ended; it was told to stop.",
            "run": operation_id,
        }
        await daemon.thread(lifecycle.record, workspace, RUNNER, "workspace.orphan_stopped", data)
    return unclear


def _stray_programs(runner) -> list[tuple]:
    """Return (workspace id, operation id) of live shims whose operation is over; only open Runs can have them."""
    stray = []
    for workspace_id in Run.objects.filter(runner=runner, ended_at=None).values_list("workspace_id", flat=True):
        folder = paths.folder_of(workspace_id) / "programs"
        alive = [found.parent.name for found in folder.glob("*/socket")]
        open_ones = {
            str(pk) for pk in Operation.objects.open().filter(workspace=workspace_id).values_list("pk", flat=True)
        }
        for name in alive:
            if name not in open_ones and client.status(folder / name).state == "running":
                stray.append((workspace_id, name))
    return stray


def _over(runner):
    """Return the Runs that are over and have control groups; a driver that died in between leaves them."""
    names = {group.name for base in cgroups.hierarchies() for group in _groups(base.base) if _uuid(group.name)}
    return Run.objects.filter(runner=runner, ended_at__isnull=False, pk__in=names)


def _remove_dead_cgroups(over):
    ours = {str(pk) for pk in over.values_list("pk", flat=True)}
    for base in cgroups.hierarchies():
        cgroups.remove([str(group) for group in _groups(base.base) if group.name in ours])


def _groups(base: Path) -> list[Path]:
    try:
        return [Path(entry.path) for entry in os.scandir(base) if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return []


def _uuid(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None
