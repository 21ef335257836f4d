"""The runner's API of the snapshot stores in folders of this host, for reading on other hosts (store_elsewhere.py)."""

import re
from pathlib import Path

from aiohttp import web

from dashboard.problems import not_found
from workspaces.changes import stores
from workspaces.host import paths

SEGMENT = re.compile(r"[0-9a-f]{32}\.idx")
PACK = re.compile(r"[0-9]{8,12}\.pack")
MOST = 64 << 20  # bytes of a pack in one response
routes = web.RouteTableDef()


@routes.get("/stores/{team}/head")
async def head(request):
    """→ the head of the team's store. Problem 503 if the store is missing or the wrong one."""
    thread = request.app["daemon"].thread
    store = await thread(stores.opened_here, request.match_info["team"])
    return web.Response(body=(await thread(store.blobs.head)).data)


@routes.get("/stores/{team}/bytes")
async def stored_bytes(request):
    """→ the size of the store, in decimal digits."""
    thread = request.app["daemon"].thread
    store = await thread(stores.opened_here, request.match_info["team"])
    return web.Response(text=str(await thread(store.blobs.stored_bytes, store.catalog.view.head)))


@routes.get("/stores/{team}/index/{name}")
async def segment(request):
    """→ an index segment."""
    return web.Response(body=await request.app["daemon"].thread(_file(request, "index", SEGMENT).read_bytes))


@routes.get("/stores/{team}/packs/{name}")
async def pack(request):
    """→ `length` bytes of a pack from `offset` on, fewer at its end."""
    offset, length = int(request.query["offset"]), min(int(request.query["length"]), MOST)
    return web.Response(body=await request.app["daemon"].thread(_part, _file(request, "packs", PACK), offset, length))


@routes.get("/stores/{team}/packs/{name}/size")
async def size(request):
    """→ the length of a pack, in decimal digits."""
    return web.Response(text=str(_file(request, "packs", PACK).stat().st_size))


def _part(path: Path, offset: int, length: int) -> bytes:
    with open(path, "rb", buffering=0) as file:
        file.seek(offset)
        return file.read(length)


def _file(request, folder: str, pattern: re.Pattern) -> Path:
    """Return a file of the store. Problem 404 unless it is there and its name is one of the store's."""
    name = request.match_info["name"]
    path = paths.store_of(request.match_info["team"]) / folder / name
    if not pattern.fullmatch(name) or not path.is_file():
        raise not_found("file of the store")
    return path
