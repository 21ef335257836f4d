"""The runner's API of uploads on this host's disk, for other hosts (operations/uploads_elsewhere.py)."""

import os
import uuid
from pathlib import Path

from aiohttp import web

from dashboard.files.atomic_write import move_into_place
from dashboard.keys.key_files import make_private
from dashboard.problems import not_found
from workspaces.provisioning import capacity, uploads

PIECE = 1 << 20
routes = web.RouteTableDef()


def _path(request) -> Path:
    """Return where an upload is or comes. Problem 404 for what is no name of an upload."""
    team, upload = request.match_info["team"], request.match_info["upload"]
    try:
        uuid.UUID(team)
    except ValueError:
        raise not_found("upload") from None
    if not uploads.is_name(upload):
        raise not_found("upload")
    return uploads.folder_of(team) / upload


def _kept(request) -> Path:
    path = _path(request)
    if not path.is_file():
        raise not_found("upload")
    return path


@routes.get("/uploads/{team}/{upload}/size")
async def size(request):
    """→ {"bytes"}."""
    return web.json_response({"bytes": _kept(request).stat().st_size})


@routes.get("/uploads/{team}/{upload}")
async def read(request):
    """→ the archive."""
    return web.FileResponse(_kept(request))


@routes.put("/uploads/{team}/{upload}")
async def keep(request):
    """Keep an archive that the web of another host received → {}."""
    path, thread = _path(request), request.app["daemon"].thread
    await thread(capacity.refuse_new)
    fresh = make_private(path.parent) / f".{path.name}"
    try:
        with open(fresh, "xb", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
            async for piece in request.content.iter_chunked(PIECE):
                await thread(file.write, piece)
        await thread(move_into_place, fresh, path)
    finally:
        fresh.unlink(missing_ok=True)
    return web.json_response({})
