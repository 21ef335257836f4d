"""The runner's part of a search for a value: takes the value into its memory, and reads files of live workspaces."""

import json
import stat
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing

from aiohttp import web

from dashboard.models import Actor, Team
from dashboard.problems import Problem
from workspaces.drivers.base import DriverError
from workspaces.models import Workspace
from workspaces.runner import tree_access
from workspaces.runner.snapshot_tree import KeptTree
from workspaces.services.scrub import asking
from workspaces.services.scrub.places import FILE, Place
from workspaces.services.scrub.stored import MAX_PATHS
from workspaces.services.scrub.value import INFLATED_BYTES, Wanted
from workspaces.store import StoreError

PIECE = 4 << 20
WHY_KEPT = "a purge doesn't change files of a workspace: take it out there"
FOLDERS = {"tree": "/workspace", "home": "/home/agent"}
routes = web.RouteTableDef()


@routes.post("/teams/{id}/scrub")
async def ask(request):
    """{"value", "kind", "args", "by"} → {"operation": id}: keep the value in memory, and create the operation."""
    daemon, asked = request.app["daemon"], json.loads(await request.read())
    pk = uuid.uuid4()
    daemon.values[pk] = asked["value"]  # before the operation can be claimed
    try:
        await daemon.thread(_record, daemon, pk, request.match_info["id"], asked)
    except BaseException:
        daemon.values.pop(pk, None)
        raise
    return web.json_response({"operation": str(pk)})


def _record(daemon, pk, team_id, asked: dict):
    team = Team.objects.get(pk=team_id)
    asking.record(pk, team, daemon.row, asked["kind"], asked["args"], Actor(**asked["by"]))


async def live_files(daemon, team, wanted: Wanted, tick: Callable[[], None]) -> tuple[list[Place], list[str]]:
    """Return the workspaces of this host whose live files have the value, and what was not read, in words."""
    places: list[Place] = []
    unread: list[str] = []
    rows = Workspace.objects.filter(team=team, purged_at=None, runner=daemon.row)
    rows = rows.select_related("team", "environment", "head")
    for workspace in await daemon.thread(list, rows.order_by("key")):
        try:
            tree = await tree_access.readable_tree(daemon, workspace)
            if isinstance(tree, KeptTree):
                unread.append(f"live files of {workspace.key}: its virtual machine is not up")
                continue
            places += await daemon.thread(_in_workspace, workspace, tree, wanted, tick)
        except (Problem, DriverError, StoreError, OSError):
            unread.append(f"live files of {workspace.key}: they can't be read now")
    return places, unread


def _in_workspace(workspace, tree, wanted: Wanted, tick) -> list[Place]:
    found = []
    for folder, shown in FOLDERS.items():
        if folder == "home" and workspace.own_folder:
            continue  # a connected folder: the home is the person's own
        with tree.files(folder) as files:
            paths = list(_hits(files, wanted, tick))
        if paths:
            named = [wanted.out_of(path.decode("utf-8", "backslashreplace")) for path in paths[:MAX_PATHS]]
            what = {"kind": FILE, "what": "live files", "name": f"files in {shown}", "workspace": workspace.key}
            found.append(Place(**what, paths=tuple(named), count=len(paths), why_kept=WHY_KEPT))
    return found


def _hits(files, wanted: Wanted, tick) -> Iterator[bytes]:
    """Yield the paths with the value in their name or content. Symlinks are not followed."""
    folders = [b""]
    while folders:
        at = folders.pop()
        for name, found in _listed(files, at):
            tick()
            path = at + b"/" + name if at else name
            if stat.S_ISDIR(found.st_mode):
                folders.append(path)
            if wanted.is_in(name) or (stat.S_ISREG(found.st_mode) and _is_in(files, path, wanted, tick)):
                yield path


def _listed(files, folder: bytes) -> list:
    try:
        return sorted(files.entries(folder))
    except OSError:
        return []  # gone, or unreadable


def _is_in(files, path: bytes, wanted: Wanted, tick) -> bool:
    before, offset = b"", 0
    try:
        with closing(files.open(path)) as file:
            while piece := file.pread(PIECE, offset):
                tick()
                if (not offset and len(piece) <= INFLATED_BYTES and wanted.is_in_file(piece)) or wanted.is_in(
                    before + piece
                ):
                    return True
                offset += len(piece)
                before = (before + piece)[-wanted.longest :]
    except OSError:
        pass  # gone, or unreadable
    return False
