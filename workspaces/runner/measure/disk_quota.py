"""Measure each running workspace's size and listening ports, and freeze it when its limit or the disk is full.

A size is found by walking the tree, which is slow for a large one. The tree is walked again only once fifty times the
duration of the last walk has passed, or the disk has lost as much space as the workspace had left.
"""

import logging
import shutil
import time
from dataclasses import dataclass
from pathlib import Path

from django.conf import settings
from django.db import DatabaseError

from dashboard.database import clock
from dashboard.models import Actor
from dashboard.text.visible_text import plain_size
from dashboard.workers import lanes
from workspaces import lifecycle
from workspaces.drivers.base import DriverError
from workspaces.host import paths
from workspaces.models import Operation, Run, Workspace
from workspaces.provisioning import capacity, limits
from workspaces.runner.measure import ports
from workspaces.runner.measure.disk_usage import disk_usage
from workspaces.runner.measure.shared_blocks import Sharing

logger = logging.getLogger("handrail.runner")
ROUND_S = 10.0
PAUSE_FACTOR = 50  # pause between two walks, as a multiple of the last one's duration
RELIEF_INTERVAL_S = 3600.0  # seconds between two early retention sweeps for lack of disk space
VITALS = Actor.system("limits")


@dataclass
class Measured:
    bytes: int
    at: float
    took: float
    used: int  # bytes used on the whole disk at that time


class Vitals:
    """Measurements of the workspaces that are up on this host; kept in memory, measured again after a restart."""

    def __init__(self, daemon):
        self.daemon = daemon
        self._measured: dict = {}
        self._relieved = float("-inf")
        self._sharing = Sharing()

    async def round(self):
        """Measure all that are up, freeze those that are too large, and thaw those that are small again."""
        daemon = self.daemon
        if not daemon.up.runs and not capacity.is_short_of_room():
            return
        runs = await daemon.thread(self._begin_round)
        self._measured = {pk: m for pk, m in self._measured.items() if pk in {run.workspace_id for run in runs}}
        for driver, run, owner in await daemon.with_owners(runs):
            try:
                await self._measure(run, driver, owner)
            except (DriverError, OSError, DatabaseError) as error:
                logger.warning("%s could not be measured: %s", run.workspace.key, error)
        try:
            await daemon.thread(self._sharing.round, runs)
        except (OSError, DatabaseError) as error:
            logger.warning("what workspaces share could not be measured: %s", error)

    async def check(self, workspace):
        """Raise DriverError if the workspace is too large to start a program in it.

        Measures again only a workspace that is frozen or may have outgrown its limit since the last measurement.
        """
        run = await self.daemon.thread(_up_of, workspace)
        if run is None:
            return
        measured = self._measured.get(workspace.pk)
        if run.workspace.vitals.get("frozen") or (measured and self._may_be_too_large(run.workspace, measured)):
            self.forget(workspace.pk)
            for driver, _, owner in await self.daemon.with_owners([run]):
                await self._measure(run, driver, owner)
        if words := run.workspace.vitals.get("frozen"):
            raise DriverError(words)

    async def measure_now(self, workspace):
        """Measure a workspace that is frozen or has become smaller; freeze or thaw it by that."""
        run = await self.daemon.thread(_up_of, workspace)
        if run is None or not (run.workspace.vitals.get("frozen") or workspace.pk not in self._measured):
            return
        self.forget(workspace.pk)
        for driver, _, owner in await self.daemon.with_owners([run]):
            await self._measure(run, driver, owner)

    def forget(self, workspace_id):
        """Drop the measurement of a workspace that has become smaller; the next round takes a new one."""
        self._measured.pop(workspace_id, None)

    async def _measure(self, run, driver, owner):
        workspace = run.workspace
        if owner is None:
            return
        size = await self._size(workspace)
        vitals = {"bytes": size}
        if shared := workspace.vitals.get("shared"):  # measured by itself
            vitals["shared"] = shared
        vitals["ports"] = await ports.of(driver, owner)
        vitals |= await _used_up(driver, owner, workspace)
        # A sandbox with its own disk enforces the limit itself: writes beyond it fail in the program.
        too_large = "" if "disk" in owner.limits else _too_large(workspace, size)
        words = too_large or (_disk_is_full() if driver.capabilities.freeze else "")
        if words and driver.capabilities.freeze:
            vitals["frozen"] = words
        await self._freeze_or_thaw(workspace, driver, owner, vitals.get("frozen", ""))
        await self.daemon.thread(_note, workspace, vitals, words)

    async def _size(self, workspace) -> int:
        measured = self._measured.get(workspace.pk)
        if measured is None or self._is_due(workspace, measured):
            begun, used = time.monotonic(), _used()
            size = await self.daemon.thread(disk_usage, *_folders(workspace))
            measured = self._measured[workspace.pk] = Measured(size, begun, time.monotonic() - begun, used)
        return measured.bytes

    def _is_due(self, workspace, measured: Measured) -> bool:
        waited = time.monotonic() - measured.at
        return waited >= max(ROUND_S - 1, PAUSE_FACTOR * measured.took) or self._may_be_too_large(workspace, measured)

    def _may_be_too_large(self, workspace, measured: Measured) -> bool:
        """Return True if the disk lost as much as the workspace had left, to the warning or else to the limit."""
        limit = capacity.size_limit(workspace)
        nearly = limit * capacity.NEARLY_FULL
        left = (nearly if measured.bytes < nearly else limit) - measured.bytes
        return bool(limit) and _used() - measured.used > max(left, 0)

    async def _freeze_or_thaw(self, workspace, driver, owner, words: str):
        """Freeze the workspace if there is a reason (`words`), else thaw it.

        Whether it is frozen is asked of the driver: the database lacks a freeze after which it could not be written.
        Under the tree lock, because the operation that holds it may freeze and thaw too; a pause freezes without it.
        """
        if not driver.capabilities.freeze or await driver.frozen(owner) == bool(words):
            return
        async with self.daemon.tree_lock(workspace.pk):
            if words and not await driver.frozen(owner):
                await driver.freeze(owner)
            elif not words and not await self.daemon.thread(_is_busy, workspace):
                await driver.thaw(owner)

    def _begin_round(self) -> list[Run]:
        self._relieve()
        return _up(self.daemon.row)

    def _relieve(self):
        """Run retention and the store's garbage collection early if the disk is short of space."""
        if not capacity.is_short_of_room() or time.monotonic() - self._relieved < RELIEF_INTERVAL_S:
            return
        self._relieved = time.monotonic()
        logger.warning("the disk has %s left: retention and the collection run now", capacity.free_bytes())
        lanes.queue_task("workspaces.tasks.sweep_retention")
        lanes.queue_task("workspaces.tasks.collect_garbage")


def _up(runner):
    """Return the Runs that are up on this host and have no exclusive operation open."""
    busy = Operation.objects.open().filter(exclusive=True, workspace__runner=runner).values("workspace")
    rows = Run.objects.filter(runner=runner, ended_at=None, ready_at__isnull=False).exclude(workspace__in=busy)
    return list(rows.select_related("workspace__environment", "workspace__team"))


def _is_busy(workspace) -> bool:
    return Operation.objects.open().filter(exclusive=True, workspace=workspace).exists()


def _up_of(workspace):
    rows = Run.objects.filter(workspace=workspace, ended_at=None, ready_at__isnull=False)
    return rows.select_related("workspace__environment", "workspace__team").first()


async def _used_up(driver, owner, workspace) -> dict:
    """Return {"processes": {count, limit}} if the limit on processes and threads is reached, else {}."""
    limit = limits.in_force(workspace.environment)["pids"]
    if "pids" not in owner.limits or not limit:
        return {}
    try:
        count = await driver.tasks(owner)
    except DriverError:
        return {}  # started by an older version, or busy; what needs it to answer says so
    return {"processes": {"count": limit, "limit": limit}} if count >= limit else {}


def _note(workspace, vitals: dict, words: str):
    was = workspace.vitals
    if {**was, "at": ""} == {**vitals, "at": ""}:
        return
    vitals["at"] = clock.now().isoformat()
    Workspace.objects.filter(pk=workspace.pk).update(vitals=vitals)
    workspace.vitals = vitals
    if vitals.get("frozen") and not was.get("frozen"):
        lifecycle.record(workspace, VITALS, "workspace.frozen", {"reason": words})
    elif was.get("frozen") and not vitals.get("frozen"):
        lifecycle.record(workspace, VITALS, "workspace.thawed", {"bytes": vitals["bytes"]})
    limit = capacity.size_limit(workspace)
    if limit and was.get("bytes", 0) < limit * capacity.NEARLY_FULL <= vitals["bytes"]:
        lifecycle.record(workspace, VITALS, "workspace.nearly_full", {"bytes": vitals["bytes"], "limit": limit})


def _too_large(workspace, size: int) -> str:
    limit = capacity.size_limit(workspace)
    if not limit or size <= limit:
        return ""
    return (
        f"This workspace uses {plain_size(size)} of {plain_size(limit)}, so its programs are frozen. Delete "
        "something or raise the limit of its environment to continue."
    )


def _disk_is_full() -> str:
    """Return why all programs are frozen, or "".

    The reserve is for end snapshots, so programs are frozen once less than half of it is left.
    """
    free = capacity.free_bytes()
    if free >= settings.HANDRAIL_RESERVE_BYTES / 2:
        return ""
    return f"This machine's disk has {plain_size(free)} left, so all programs are frozen until there is room."


def _used() -> int:
    return shutil.disk_usage(settings.HANDRAIL_HOME).used


def _folders(workspace) -> list[Path]:
    """Return the folders that count: the tree, and the agent's home unless the workspace is a connected folder."""
    tree = paths.tree_of(workspace)
    return [tree] if workspace.own_folder else [tree, paths.folder_of(workspace.pk) / "home"]
