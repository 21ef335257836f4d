"""What runs without a row that knows of it, and rows that say something runs which does not: found and resolved.

The rule: what is ours and certainly over is stopped and cleared; a row without its Run is ended with a snapshot; what
nobody can tell is left alone and reported, on the Status page and by `doctor`. Nothing is ever replaced here.
"""

import logging
import os
from pathlib import Path
from uuid import UUID

from dashboard import clock
from dashboard.models import Actor
from workspaces import lifecycle, places
from workspaces.drivers import cgroups
from workspaces.drivers.base import DriverError, Owner
from workspaces.hosts import client
from workspaces.models import Effect, Run, Runner, State, Workspace
from workspaces.runner import sleepers, watching

logger = logging.getLogger("handrail.runner")
EVERY = 15.0  # seconds: an orphan is resolved well within a minute
RUNNER = Actor.system("runner")
OF_EFFECTS = ("setup-", "reader-")  # Runs that one effect needs; named for it
KNOWN, OVER, UNKNOWN = "known", "over", "unknown"


async def sweep(daemon):
    unclear: list[str] = []
    for driver in await daemon.drivers_here():
        try:
            owners = await driver.owners()
        except DriverError as error:
            unclear.append(f"{driver.name}: {error}")
            continue
        for owner in owners:
            if words := await _resolve(daemon, driver, owner):
                unclear.append(words)
    await daemon.thread(_rows_without_runs, daemon.row)
    for words in await _programs_without_effects(daemon):
        unclear.append(words)
    await sleepers.sweep(daemon)
    await daemon.thread(_empty_groups, daemon.row)
    await daemon.thread(Runner.objects.filter(pk=daemon.row.pk).exclude(unclear=unclear).update, unclear=unclear)


async def _resolve(daemon, driver, owner: Owner) -> str:
    """Stop and clear what is over; words for what nobody can tell."""
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
        await driver.clear(owner)
    except DriverError as error:
        return f"{owner.run_id} of {driver.name} should be gone, and is not: {error}"
    if alive:
        logger.warning("stopped %s, which no open row knew of", owner.run_id)
        await daemon.thread(_told, owner, "It ran on although it was over, and was stopped.")
    return ""


def _standing(owner: Owner) -> str:
    """Whether a driver's record belongs to something that is open, or is over, or nobody knows."""
    if not owner.workspace_id:
        return KNOWN  # a driver's own, which belongs to nobody yet
    of_effect = owner.run_id.startswith(OF_EFFECTS)
    run_id = _uuid(owner.run_id.partition("-")[2] if of_effect else owner.run_id)
    workspace_id = _uuid(owner.workspace_id)
    if workspace_id is None or run_id is None:
        return UNKNOWN
    if Effect.objects.open().filter(exclusive=True, workspace=workspace_id).exists():
        return KNOWN  # in the middle of a start or an end; that knows best
    if of_effect:
        return OVER if Effect.objects.filter(pk=run_id).exists() else UNKNOWN
    run = Run.objects.filter(pk=run_id).first()
    if run is not None:
        return KNOWN if run.ended_at is None else OVER
    return OVER if Workspace.objects.filter(pk=workspace_id).exists() else UNKNOWN


def _told(owner: Owner, words: str):
    workspace = Workspace.objects.filter(pk=owner.workspace_id).first()
    if workspace is not None:
        lifecycle.record(workspace, RUNNER, "workspace.orphan_stopped", {"reason": words, "run": owner.run_id})


def _rows_without_runs(runner):
    """Rows that wait for nothing: a Run that never came up, and a workspace that says it is up without a Run."""
    busy = Effect.objects.open().filter(exclusive=True).values("workspace")
    never_up = Run.objects.filter(runner=runner, ended_at=None, ready_at=None).exclude(workspace__in=busy)
    never_up.update(ended_at=clock.now(), end_reason="It never came up.")
    up = Run.objects.filter(ended_at=None).values("workspace")
    alone = Workspace.objects.kept().filter(runner=runner, state=State.READY).exclude(pk__in=up)
    for workspace in alone.exclude(pk__in=busy):
        if workspace.source.get("path"):
            continue  # a person's own folder is of use without a Run
        last = workspace.runs.order_by("-started_at").values_list("pk", flat=True).first()
        watching.ask_end(workspace, f"{last or workspace.pk}:without a run")


async def _programs_without_effects(daemon) -> list[str]:
    """Programs that go on although what asked for them is over: told to end. Words for those that do not hear it."""
    unclear = []
    for workspace_id, effect_id in await daemon.thread(_stray_programs, daemon.row):
        folder = places.program_of(workspace_id, effect_id)
        try:
            await client.cancel(folder)
        except DriverError as error:
            unclear.append(f"The program {effect_id} goes on although it is over, and does not hear us: {error}")
            continue
        workspace = await daemon.thread(Workspace.objects.get, pk=workspace_id)
        data = {"reason": "A program ran on although what asked for it was over; it was told to end.", "run": effect_id}
        await daemon.thread(lifecycle.record, workspace, RUNNER, "workspace.orphan_stopped", data)
    return unclear


def _stray_programs(runner) -> list[tuple]:
    """(workspace, program) of host processes that live while their effect is over; only what is up can have some."""
    stray = []
    for workspace_id in Run.objects.filter(runner=runner, ended_at=None).values_list("workspace_id", flat=True):
        folder = places.folder_of(workspace_id) / "programs"
        alive = [found.parent.name for found in folder.glob("*/socket")]
        open_ones = {
            str(pk) for pk in Effect.objects.open().filter(workspace=workspace_id).values_list("pk", flat=True)
        }
        for name in alive:
            if name not in open_ones and client.status(folder / name).state == "running":
                stray.append((workspace_id, name))
    return stray


def _empty_groups(runner):
    """Control groups of Runs that are over: the driver takes them away, unless it died in between."""
    names = {group.name for base in cgroups.hierarchies() for group in _groups(base.base)}
    over = Run.objects.filter(runner=runner, ended_at__isnull=False)
    ours = {str(pk) for pk in over.filter(pk__in=[n for n in names if _uuid(n)]).values_list("pk", flat=True)}
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
