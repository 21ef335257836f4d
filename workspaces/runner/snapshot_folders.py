"""Snapshots of this host's workspaces that people opened as folders: served by processes that end with the runner.

A folder is closed by a person, by its time-out, when its snapshot is deleted, and with the runner, however that ends.
What a crash leaves of it is an empty folder, which the next runner removes.
"""

import asyncio
import logging
import subprocess
import time
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from aiohttp import web
from django.conf import settings

from dashboard.database import clock
from dashboard.problems import conflict, not_found, unavailable
from workspaces.changes import stores
from workspaces.host import paths, store_keys, team_stores
from workspaces.models import Snapshot
from workspaces.runner.led import led_workspace
from workspaces.store.mount import process as mounts
from workspaces.store.mount.unmounting import unmount

logger = logging.getLogger("handrail.runner")
MOST = 32  # folders that are open on a host at the same time
LOOK_S = 10.0  # between two looks whether a snapshot is still there
routes = web.RouteTableDef()


@dataclass
class OpenFolder:
    """One open folder. `until` is a monotonic time, `ends_at` the same for people."""

    key: tuple
    path: Path
    process: subprocess.Popen
    until: float
    ends_at: datetime

    def as_json(self) -> dict:
        return {
            "snapshot": self.key[1],
            "path": str(self.path),
            "host": settings.HANDRAIL_HOST_NAME,
            "until": self.ends_at.isoformat(),
        }


class SnapshotFolders:
    """The open folders of this runner, by (workspace id, snapshot number)."""

    def __init__(self, daemon):
        self.daemon, self._open, self._tasks = daemon, {}, set()
        self._lock = asyncio.Lock()

    async def open(self, workspace, snapshot: Snapshot, minutes: int) -> OpenFolder:
        """Open a snapshot as a folder, or keep it open for so many minutes from now. Problem 409, 503."""
        key = (str(workspace.pk), snapshot.number)
        async with self._lock:
            folder = self._open.get(key)
            if folder is None or folder.process.poll() is not None:
                if why := mounts.why_not():
                    raise conflict(why, code="no_fuse")
                if len(self._open) >= MOST:
                    raise unavailable(f"{MOST} snapshots are open as folders on this host. Close one first.")
                folder = await self.daemon.thread(_mounted, key, workspace, snapshot)
                self._open[key] = folder
                task = asyncio.create_task(self._watch(folder, snapshot.pk))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
            folder.until = time.monotonic() + 60 * minutes
            folder.ends_at = clock.now() + timedelta(minutes=minutes)
        return folder

    async def close(self, workspace_id, number: int):
        """Close a folder. Problem 404 if it is not open."""
        folder = self._open.get((str(workspace_id), number))
        if folder is None:
            raise not_found("open folder")
        await self._end(folder)

    def of(self, workspace_id) -> list[OpenFolder]:
        """Return the open folders of a workspace."""
        return [folder for key, folder in sorted(self._open.items()) if key[0] == str(workspace_id)]

    async def shut(self):
        """Close all of them."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*map(self._end, list(self._open.values())), return_exceptions=True)

    async def _end(self, folder: OpenFolder):
        if self._open.get(folder.key) is folder:
            del self._open[folder.key]
            await self.daemon.thread_now(_unmounted, folder)

    async def _watch(self, folder: OpenFolder, snapshot_id):
        is_kept = Snapshot.objects.filter(pk=snapshot_id, trashed_at=None, workspace__trashed_at=None).exists
        while (left := folder.until - time.monotonic()) > 0 and folder.process.poll() is None:
            await asyncio.sleep(min(left, LOOK_S))
            if not await self.daemon.thread(is_kept):
                break
        await self._end(folder)


def _mounted(key: tuple, workspace, snapshot: Snapshot) -> OpenFolder:
    stores.opened_here(workspace.team_id)  # or raise in words: it is missing, another one, or on another host
    path = paths.snapshot_folder_of(workspace, snapshot.number)
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    address, options = team_stores.address_of(workspace.team_id), team_stores.mount_options()
    keys = store_keys.keys_of(workspace.team_id)
    process = mounts.start(address, snapshot.tree_hex, path, options, keys=keys)
    return OpenFolder(key, path, process, 0.0, clock.now())


def _unmounted(folder: OpenFolder):
    mounts.end(folder.process, folder.path)
    _remove_empty(folder.path)


def _remove_empty(path: Path):
    """Remove the folder of a mount, and those above it if they are empty too. Nothing with content is removed."""
    with suppress(OSError):
        for each in (path, *list(path.parents)[:2]):
            each.rmdir()


def remove_left():
    """Remove what an earlier runner left behind."""
    for path in sorted(paths.snapshot_folders().glob("*/*/*")):
        unmount(path)
        _remove_empty(path)


@routes.get("/workspaces/{id}/snapshot-folders")
async def opened(request):
    """→ {"folders": [{snapshot, path, host, until}], "why_not": a sentence if none can be opened here}."""
    workspace, daemon = await led_workspace(request), request.app["daemon"]
    folders = [folder.as_json() for folder in daemon.snapshot_folders.of(workspace.pk)]
    return web.json_response({"folders": folders, "why_not": await daemon.thread(mounts.why_not)})


@routes.post("/workspaces/{id}/snapshot-folders/{number}")
async def open_folder(request):
    """{"minutes"} → {snapshot, path, host, until}."""
    workspace, asked = await led_workspace(request), await request.json()
    daemon, number = request.app["daemon"], int(request.match_info["number"])
    rows = Snapshot.objects.filter(workspace=workspace, number=number, trashed_at=None)
    if (snapshot := await daemon.thread(rows.first)) is None:
        raise not_found("snapshot")
    return web.json_response((await daemon.snapshot_folders.open(workspace, snapshot, asked["minutes"])).as_json())


@routes.delete("/workspaces/{id}/snapshot-folders/{number}")
async def close_folder(request):
    """→ {}; Problem 404 if it is not open."""
    workspace = await led_workspace(request)
    await request.app["daemon"].snapshot_folders.close(workspace.pk, int(request.match_info["number"]))
    return web.json_response({})
