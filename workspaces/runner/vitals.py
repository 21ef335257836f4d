"""How large each workspace is, on which ports it listens, and what is frozen because a disk is about to be full.

Sizes are counted by walking the tree, and a walk of a large one costs something: so it is walked again only when the
disk has lost what was left to it, or fifty times the time has passed that the last walk took.
"""

import logging
import os
import shutil
import stat
import time
from dataclasses import dataclass
from pathlib import Path

from django.conf import settings
from django.template.defaultfilters import filesizeformat
from django_q.tasks import async_task

from dashboard import clock
from dashboard.models import Actor
from workspaces import capacity, lifecycle, places
from workspaces.drivers.base import DriverError
from workspaces.models import Effect, Run, Workspace
from workspaces.runner import ports

logger = logging.getLogger("handrail.runner")
ROUND = 10.0
PATIENCE = 50  # a walk that took a second is not repeated by itself for so many
DEEPEST = 200
LARGEST_S = 20.0
RELIEF_EVERY = 3600.0  # seconds between two calls of retention because the disk is short of room
VITALS = Actor.system("limits")


@dataclass
class Measured:
    bytes: int
    at: float
    took: float
    used: int  # of the whole disk, then


class Vitals:
    """What is known of the workspaces that are up here; lost with the runner and measured again."""

    def __init__(self, daemon):
        self.daemon = daemon
        self._measured: dict = {}
        self._relieved = float("-inf")

    async def round(self):
        """Measure all that are up, freeze what is too large, and thaw what is small again."""
        daemon = self.daemon
        await daemon.thread(self._relieve)
        runs = await daemon.thread(_up, daemon.row)
        self._measured = {pk: m for pk, m in self._measured.items() if pk in {run.workspace_id for run in runs}}
        for driver, run, owner in await daemon.with_owners(runs):
            try:
                await self._look_at(run, driver, owner)
            except (DriverError, OSError) as error:
                logger.warning("%s could not be measured: %s", run.workspace.key, error)

    async def check(self, workspace):
        """Before a program starts: DriverError in words for what is, or has just become, too large.

        Nothing is walked for that but what stands still, or may have grown beyond its limit since it was measured.
        """
        run = await self.daemon.thread(_up_of, workspace)
        if run is None:
            return
        measured = self._measured.get(workspace.pk)
        if run.workspace.vitals.get("frozen") or (measured and self._may_be_too_large(run.workspace, measured)):
            self.forget(workspace.pk)
            for driver, _, owner in await self.daemon.with_owners([run]):
                await self._look_at(run, driver, owner)
        if words := run.workspace.vitals.get("frozen"):
            raise DriverError(words)

    def forget(self, workspace_id):
        """It has just become smaller: the next round counts again."""
        self._measured.pop(workspace_id, None)

    async def _look_at(self, run, driver, owner):
        workspace = run.workspace
        if owner is None:
            return
        size = await self._size(workspace)
        vitals = {"at": (await self.daemon.thread(clock.now)).isoformat(), "bytes": size}
        vitals["ports"] = await ports.of(driver, owner)
        # A disk of its own holds its limit by itself, and says so to the program that wants more.
        too_large = "" if "disk" in owner.limits else _too_large(workspace, size)
        words = too_large or (_disk_is_full() if driver.capabilities.freeze else "")
        if words and driver.capabilities.freeze:
            vitals["frozen"] = words
        await self._hold(workspace, driver, owner, vitals.get("frozen", ""))
        await self.daemon.thread(_note, workspace, vitals, words)

    async def _size(self, workspace) -> int:
        measured = self._measured.get(workspace.pk)
        if measured is None or self._is_due(workspace, measured):
            begun, used = time.monotonic(), _used()
            size = await self.daemon.thread(weigh, *_folders(workspace))
            measured = self._measured[workspace.pk] = Measured(size, begun, time.monotonic() - begun, used)
        return measured.bytes

    def _is_due(self, workspace, measured: Measured) -> bool:
        waited = time.monotonic() - measured.at
        return waited >= max(ROUND - 1, PATIENCE * measured.took) or self._may_be_too_large(workspace, measured)

    def _may_be_too_large(self, workspace, measured: Measured) -> bool:
        """Has the disk lost what was left to it, up to the warning or up to the limit?"""
        limit = capacity.size_limit(workspace)
        nearly = limit * capacity.NEARLY_FULL
        left = (nearly if measured.bytes < nearly else limit) - measured.bytes
        return bool(limit) and _used() - measured.used > max(left, 0)

    async def _hold(self, workspace, driver, owner, words: str):
        """Frozen while there are words for it; only the move that holds the tree may change that besides."""
        was = workspace.vitals.get("frozen", "")
        if not words and not was:
            return
        async with self.daemon.tree_lock(workspace.pk):
            if words and not await driver.frozen(owner):
                await driver.freeze(owner)
            elif not words:
                await driver.thaw(owner)

    def _relieve(self):
        """The disk is short of room: what retention lets go, goes now."""
        if not capacity.is_short_of_room() or time.monotonic() - self._relieved < RELIEF_EVERY:
            return
        self._relieved = time.monotonic()
        logger.warning("the disk has %s left: retention and the collection run now", capacity.free_bytes())
        async_task("workspaces.tasks.sweep_retention")
        async_task("workspaces.tasks.collect_garbage")


def _up(runner):
    """Runs that are up here and in the middle of nothing."""
    busy = Effect.objects.open().filter(exclusive=True, workspace__runner=runner).values("workspace")
    rows = Run.objects.filter(runner=runner, ended_at=None, ready_at__isnull=False).exclude(workspace__in=busy)
    return list(rows.select_related("workspace__environment", "workspace__team"))


def _up_of(workspace):
    rows = Run.objects.filter(workspace=workspace, ended_at=None, ready_at__isnull=False)
    return rows.select_related("workspace__environment", "workspace__team").first()


def _note(workspace, vitals: dict, words: str):
    was = workspace.vitals
    if {**was, "at": ""} == {**vitals, "at": ""}:
        return
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
        f"This workspace uses {filesizeformat(size)} of {filesizeformat(limit)}, so its programs stand still. Remove "
        "something, or raise the limit of its environment, and they go on."
    )


def _disk_is_full() -> str:
    """The reserve is for the snapshots at the end: programs stand still before they have used half of it."""
    free = capacity.free_bytes()
    if free >= settings.HANDRAIL_RESERVE_BYTES / 2:
        return ""
    return f"This machine's disk has {filesizeformat(free)} left, so all programs stand still until there is room."


def _used() -> int:
    return shutil.disk_usage(settings.HANDRAIL_HOME).used


def _folders(workspace) -> list[Path]:
    """What counts: the tree, and the agent's home where that is ours."""
    tree = places.tree_of(workspace)
    return [tree] if workspace.source.get("path") else [tree, places.folder_of(workspace.pk) / "home"]


def weigh(*folders: Path) -> int:
    """The bytes on disk of everything below some folders; a file with several names counts once."""
    seen: set = set()
    return sum(_weigh(os.fsencode(folder), None, 0, seen) for folder in folders)


def _weigh(name: bytes, above: int | None, depth: int, seen: set) -> int:
    try:
        fd = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=above)
    except OSError:
        return 0  # gone meanwhile
    total = 0
    try:
        with os.scandir(fd) as entries:
            for entry in entries:
                try:
                    found = entry.stat(follow_symlinks=False)
                except OSError:
                    continue
                if found.st_nlink > 1 and not stat.S_ISDIR(found.st_mode):
                    if (found.st_dev, found.st_ino) in seen:
                        continue
                    seen.add((found.st_dev, found.st_ino))
                total += found.st_blocks * 512
                if stat.S_ISDIR(found.st_mode) and depth < DEEPEST:
                    total += _weigh(os.fsencode(entry.name), fd, depth + 1, seen)
    finally:
        os.close(fd)
    return total


def largest(tree, most: int = 20) -> list[tuple[bytes, int]]:
    """(path, bytes) of what is big in a tree, to the second level, largest first; what takes too long counts less."""
    until, totals = time.monotonic() + LARGEST_S, {}
    with tree.files() as files:
        todo = [(b"", 0)]
        while todo and time.monotonic() < until:
            at, depth = todo.pop()
            try:
                entries = list(files.entries(at))
            except OSError:
                continue  # gone meanwhile, or not to be read
            for name, info in entries:
                path = at + b"/" + name if at else name
                parts = path.split(b"/")
                for shown in {b"/".join(parts[:1]), b"/".join(parts[:2])}:
                    totals[shown] = totals.get(shown, 0) + info.st_blocks * 512
                if stat.S_ISDIR(info.st_mode) and depth < DEEPEST:
                    todo.append((path, depth + 1))
    return sorted(totals.items(), key=lambda row: (-row[1], row[0]))[:most]
