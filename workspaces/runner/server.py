"""The runner's socket: live files, live trees and programs' output, streamed. Only Handrail's own user can open it."""

import asyncio
import base64
import json
import logging
import os
import stat
from contextlib import ExitStack
from pathlib import Path

from aiohttp import web
from django.conf import settings

from dashboard.problems import Problem, not_found
from workspaces import places
from workspaces.drivers.base import DriverError
from workspaces.hosts import client
from workspaces.hosts.recording import Output, segments
from workspaces.models import State, Workspace
from workspaces.runner import asking_git, files, leaks, live, snapshots, vitals, weighing
from workspaces.store import StoreError

BUNDLE = b".cache/handrail/bundle"  # where a bundle is made, below the agent's home
logger = logging.getLogger("handrail.runner")
CHUNK = 256 * 1024
routes = web.RouteTableDef()


def application(daemon) -> web.Application:
    app = web.Application(middlewares=[in_problems], client_max_size=settings.HANDRAIL_FILE_BYTES + CHUNK)
    app["daemon"] = daemon
    app.add_routes(routes)
    return app


@web.middleware
async def in_problems(request, handler):
    try:
        return await handler(request)
    except web.HTTPRequestEntityTooLarge:
        return _problem(Problem(413, f"A file may have {settings.HANDRAIL_FILE_BYTES:,} bytes here."))
    except web.HTTPException:
        raise
    except Problem as problem:
        return _problem(problem)
    except leaks.SecretFound as found:
        return _problem(Problem(409, f"What is there now cannot be kept, so it cannot be compared: {found}."))
    except (DriverError, StoreError) as error:
        return _problem(Problem(503, str(error)))
    except (asyncio.CancelledError, ConnectionResetError):
        raise
    except Exception:
        logger.exception("%s %s", request.method, request.path)
        return _problem(Problem(500, "Something broke in the runner; its log has it."))


def _problem(problem: Problem) -> web.Response:
    return web.json_response({"detail": problem.detail, **problem.extra}, status=problem.status)


async def _workspace(request) -> Workspace:
    found = await request.app["daemon"].thread(
        Workspace.objects.select_related("team", "environment", "head").filter(pk=request.match_info["id"]).first
    )
    if found is None or found.purged_at:
        raise not_found("workspace")
    return found


async def _tree(request, workspace):
    return await live.to_look_at(request.app["daemon"], workspace)


def _path(request) -> bytes:
    return base64.urlsafe_b64decode(request.query.get("path", ""))


def _writable(workspace):
    if workspace.trashed_at or workspace.state not in (State.READY, State.CREATING):
        raise Problem(409, f"{workspace.key} is not up, so its files do not change now.", state=workspace.state)


@routes.get("/workspaces/{id}/listing")
async def listing(request):
    """{"entries": [{name_b64, type, size, mode, mtime}]}, or {"entries": null} for what is not a folder."""
    workspace = await _workspace(request)
    found = await request.app["daemon"].thread(files.listing, await _tree(request, workspace), _path(request))
    if found is None:
        return web.json_response({"entries": None})
    entries = [
        {
            "name_b64": base64.b64encode(name).decode(),
            "type": kind,
            "size": info.st_size,
            "mode": stat.S_IMODE(info.st_mode),
            "mtime": info.st_mtime,
        }
        for name, kind, info in found
    ]
    return web.json_response({"entries": entries})


@routes.get("/workspaces/{id}/largest")
async def largest(request):
    workspace = await _workspace(request)
    found = await request.app["daemon"].thread(vitals.largest, await _tree(request, workspace))
    entries = [{"path_b64": base64.b64encode(path).decode(), "bytes": size} for path, size in found]
    return web.json_response({"largest": entries})


@routes.get("/workspaces/{id}/file")
async def read(request):
    workspace = await _workspace(request)
    return await _send_file(request, await _tree(request, workspace), _path(request))


@routes.get("/workspaces/{id}/bundle")
async def bundle(request):
    workspace = await _workspace(request)
    return await _send_file(request, await _tree(request, workspace), BUNDLE, "home")


async def _send_file(request, tree, path: bytes, folder: str = "tree") -> web.StreamResponse:
    thread = request.app["daemon"].thread
    with ExitStack() as stack:
        file = await thread(stack.enter_context, files.opened(tree, path, folder))
        mode = stat.S_IMODE(file.info.st_mode)
        response = web.StreamResponse(headers={"X-Size": str(file.info.st_size), "X-Mode": str(mode)})
        await response.prepare(request)
        offset = 0
        while chunk := await thread(file.pread, CHUNK, offset):
            offset += len(chunk)
            await response.write(chunk)
        await response.write_eof()
        return response


@routes.put("/workspaces/{id}/file")
async def write(request):
    """→ {"created": bool}"""
    workspace = await _workspace(request)
    _writable(workspace)
    if words := workspace.vitals.get("frozen"):
        raise Problem(507, words)
    data = await request.read()
    daemon = request.app["daemon"]
    async with daemon.tree_lock(workspace.pk):
        tree = await _tree(request, workspace)
        created = await daemon.thread(files.write, tree, _path(request), data, owner=workspace.uid)
    return web.json_response({"created": created})


@routes.delete("/workspaces/{id}/file")
async def delete(request):
    workspace = await _workspace(request)
    _writable(workspace)
    daemon = request.app["daemon"]
    async with daemon.tree_lock(workspace.pk):
        await daemon.thread(files.delete, await _tree(request, workspace), _path(request))
    daemon.vitals.forget(workspace.pk)
    return web.json_response({})


@routes.post("/workspaces/{id}/tree")
async def tree(request):
    """The live tree as the store has it now: {"tree", "entries", "bytes"}."""
    workspace = await _workspace(request)
    daemon = request.app["daemon"]
    async with daemon.tree_lock(workspace.pk):
        kept = await daemon.thread(snapshots.scan, workspace, await _tree(request, workspace))
    return web.json_response({"tree": kept.tree, "entries": kept.entries, "bytes": kept.bytes})


@routes.post("/workspaces/{id}/weight")
async def weight(request):
    """{"patterns": [path]} → weighing.Weight, of what shell patterns name in the live tree."""
    workspace, asked = await _workspace(request), await request.json()
    return await _weight(request, workspace, [os.fsencode(pattern) for pattern in asked["patterns"]], exact=False)


@routes.post("/workspaces/{id}/git-clean")
async def git_clean(request):
    """{"folder", "flags", "paths"} → weighing.Weight, of what `git clean` would remove; {"error": sentence}."""
    workspace, asked = await _workspace(request), await request.json()
    answer = await asking_git.ask(workspace, await _tree(request, workspace), asked | {"what": "clean"})
    if "error" in answer:
        return web.json_response(answer)
    return await _weight(request, workspace, [os.fsencode(path.rstrip("/")) for path in answer["paths"]], exact=True)


async def _weight(request, workspace, paths: list[bytes], *, exact: bool):
    tree = await _tree(request, workspace)

    def weigh():
        with files.in_words():
            return weighing.weigh(tree, paths, exact=exact)

    return web.json_response(weighing.told(await request.app["daemon"].thread(weigh)))


@routes.post("/workspaces/{id}/git-push")
async def git_push(request):
    """{"folder", "remote", "refspecs"} → what `git push` would take where (git_questions.push); {"error": sentence}."""
    workspace, asked = await _workspace(request), await request.json()
    tree = await _tree(request, workspace)
    return web.json_response(await asking_git.ask(workspace, tree, asked | {"what": "push"}))


@routes.post("/workspaces/{id}/links")
async def links(request):
    """{"paths", "root", "seconds"} → {"links": {path: target}, "complete"}; see weighing.links."""
    workspace, asked = await _workspace(request), await request.json()
    tree = await _tree(request, workspace)

    def look():
        paths, root = [os.fsencode(path) for path in asked["paths"]], os.fsencode(asked["root"])
        with files.in_words():
            return weighing.links(tree, paths, root, seconds=asked["seconds"])

    found, is_complete = await request.app["daemon"].thread(look)
    told = {os.fsdecode(path): os.fsdecode(target) for path, target in found.items()}
    return web.json_response({"links": told, "complete": is_complete})


@routes.get("/workspaces/{id}/programs/{program}/output")
async def output(request):
    """Raw bytes from `offset`, a line in words for each gap; with `follow=1` until the program ends."""
    folder = _program(request)
    follow = request.query.get("follow") == "1"
    response = web.StreamResponse()
    await response.prepare(request)
    if follow:
        await _await_start(folder)
    if folder.exists():
        async for part in client.attach(folder, int(request.query.get("offset", 0)), follow=follow):
            await response.write(part.data if isinstance(part, Output) else _gap_words(part))
    await response.write_eof()
    return response


@routes.get("/workspaces/{id}/programs/{program}/output/length")
async def length(request):
    """{"length": how far the output goes so far}"""
    return web.json_response({"length": max((start + size for start, size in segments(_program(request))), default=0)})


async def _await_start(folder: Path):
    for _ in range(200):
        if (folder / "claim").exists():
            return
        await asyncio.sleep(0.05)


def _gap_words(gap) -> bytes:
    return f"\n[{gap.end - gap.start:,} bytes of output were not kept]\n".encode()


def _program(request) -> Path:
    return places.program_of(request.match_info["id"], request.match_info["program"])


async def cancel_program(folder: Path):
    """End a program that runs; nothing happens to one that is over."""
    try:
        await client.cancel(folder)
    except (OSError, DriverError) as error:
        logger.warning("could not cancel %s: %s", folder.name, error)


@routes.get("/ping")
async def ping(request):
    return web.Response(text=json.dumps({"pid": os.getpid()}), content_type="application/json")
