"""HTTP API of the runner on a Unix socket: live files, live trees and program output, streamed.

Only Handrail's own user can open the socket. Errors are {"detail": sentence, …} with a Problem's status.
"""

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

from dashboard.door.entering import STOPPED
from dashboard.models import Actor
from dashboard.problems import Problem, not_found
from workspaces.drivers.base import DriverError, FilesGone
from workspaces.host import paths
from workspaces.models import State
from workspaces.runner import (
    bound_files,
    files,
    held_calls,
    look_ahead,
    mcp_servers,
    policy_file,
    reached,
    recorded,
    redacted_files,
    scrub,
    secret_scan,
    shared_ring,
    snapshot_folders,
    snapshots,
    stored,
    streams,
    tree_access,
    uploaded,
    web_elsewhere,
)
from workspaces.runner.git import sandbox
from workspaces.runner.installed.routes import routes as installed_routes
from workspaces.runner.led import led_workspace
from workspaces.runner.measure import disk_usage, known_files, tree_stats
from workspaces.runner.operations import pull_request
from workspaces.runner.run_spec import spec_of
from workspaces.shim import client
from workspaces.store import StoreError

logger = logging.getLogger("handrail.runner")
CHUNK = 256 * 1024
# Requests of a judge about the files: each call asks them, and who asks has changed no row that the runner keeps.
ABOUT_FILES = ("links", "contents", "mcp-servers", "policy-file", "redacted-files")
OWN_SECONDS = 8.0  # for git to say what Handrail itself would push
routes = web.RouteTableDef()


def application(daemon) -> web.Application:
    app = web.Application(
        middlewares=[reached.members_only, errors_as_json], client_max_size=settings.HANDRAIL_FILE_BYTES + CHUNK
    )
    app["daemon"] = daemon
    app.add_routes(routes)
    app.add_routes(scrub.routes)
    app.add_routes(installed_routes)
    app.add_routes(recorded.routes)
    app.add_routes(shared_ring.routes)
    app.add_routes(snapshot_folders.routes)
    app.add_routes(stored.routes)
    app.add_routes(uploaded.routes)
    app.add_routes(web_elsewhere.routes)
    return app


@web.middleware
async def errors_as_json(request, handler):
    if not request.path.endswith(ABOUT_FILES):
        request.app["daemon"].up.forget()  # who asks may have changed a row before
    try:
        return await handler(request)
    except web.HTTPRequestEntityTooLarge:
        return _problem(Problem(413, f"A file can have at most {settings.HANDRAIL_FILE_BYTES:,} bytes."))
    except web.HTTPException:
        raise
    except Problem as problem:
        return _problem(problem)
    except secret_scan.SecretFound as found:
        return _problem(Problem(409, f"The current files can't be saved, so they can't be compared: {found}."))
    except FilesGone as error:
        return _problem(Problem(409, str(error)))
    except (DriverError, StoreError) as error:
        return _problem(Problem(503, str(error)))
    except asyncio.CancelledError:
        raise
    except Exception as error:
        if isinstance(error, ConnectionError) and (request.transport is None or request.transport.is_closing()):
            return web.Response()  # the client disconnected; aiohttp would log the error
        logger.exception("%s %s", request.method, request.path)
        return _problem(Problem(500, "Internal error in the runner; see its log."))


def _problem(problem: Problem) -> web.Response:
    return web.json_response({"detail": problem.detail, **problem.extra}, status=problem.status)


async def _tree(request, workspace):
    return await tree_access.readable_tree(request.app["daemon"], workspace)


def _path(request) -> bytes:
    return base64.urlsafe_b64decode(request.query.get("path", ""))


def _writable(workspace):
    if workspace.team.stopped_at:  # already loaded: the event loop must not query the database
        raise Problem(409, STOPPED, code="stopped")
    if workspace.trashed_at or workspace.state not in (State.READY, State.CREATING):
        raise Problem(409, f"{workspace.key} is not up, so its files do not change now.", state=workspace.state)


@routes.get("/workspaces/{id}/listing")
async def listing(request):
    """→ {"entries": [{name_b64, type, size, mode, mtime, target_b64}]}; "entries" is null if it is not a folder."""
    workspace = await led_workspace(request)
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
            "target_b64": base64.b64encode(target).decode(),
        }
        for name, kind, info, target in found
    ]
    return web.json_response({"entries": entries})


@routes.get("/workspaces/{id}/largest")
async def largest(request):
    """→ {"largest": [{path_b64, bytes}]}; see disk_usage.largest. What is shown beside it is measured first."""
    workspace = await led_workspace(request)
    await request.app["daemon"].vitals.measure_now(workspace)
    found = await request.app["daemon"].thread(disk_usage.largest, await _tree(request, workspace))
    entries = [{"path_b64": base64.b64encode(path).decode(), "bytes": size} for path, size in found]
    return web.json_response({"largest": entries})


@routes.get("/workspaces/{id}/checkpoint-size")
async def checkpoint_size(request):
    """→ {"bytes"}: what a checkpoint of the paused workspace would take on the disk."""
    workspace = await led_workspace(request)
    driver = request.app["daemon"].driver(workspace.environment.driver)
    return web.json_response({"bytes": await driver.checkpoint_bytes(spec_of(workspace, "size"))})


@routes.get("/workspaces/{id}/file")
async def read(request):
    """→ the file's bytes from `offset`, at most `length`; headers X-Size and X-Mode."""
    workspace = await led_workspace(request)
    return await _send_file(request, await _tree(request, workspace), _path(request))


@routes.get("/workspaces/{id}/file/size")
async def size(request):
    """→ {"size": bytes, "links": hard links} of a regular file."""
    workspace = await led_workspace(request)
    tree, path = await _tree(request, workspace), _path(request)
    found, links = await request.app["daemon"].thread(files.size, tree, path)
    return web.json_response({"size": found, "links": links})


@routes.get("/workspaces/{id}/bundle")
async def bundle(request):
    """→ the git bundle that the last `bundle` operation made; it is kept for one download."""
    made, thread = paths.bundle_of(await led_workspace(request)), request.app["daemon"].thread
    if not made.is_file():
        raise not_found("bundle")
    with open(made, "rb") as file:
        made.unlink()
        response = web.StreamResponse()
        await response.prepare(request)
        while chunk := await thread(file.read, CHUNK):
            await response.write(chunk)
        await response.write_eof()
        return response


async def _send_file(request, tree, path: bytes) -> web.StreamResponse:
    thread = request.app["daemon"].thread
    with ExitStack() as stack:
        file = await thread(stack.enter_context, files.opened(tree, path))
        mode = stat.S_IMODE(file.info.st_mode)
        response = web.StreamResponse(headers={"X-Size": str(file.info.st_size), "X-Mode": str(mode)})
        await response.prepare(request)
        offset = int(request.query.get("offset", 0))
        end = offset + int(request.query.get("length", 1 << 62))
        while offset < end and (chunk := await thread(file.pread, min(CHUNK, end - offset), offset)):
            offset += len(chunk)
            await response.write(chunk)
        await response.write_eof()
        return response


@routes.put("/workspaces/{id}/file")
async def write(request):
    """Respond with {"created": bool}."""
    workspace = await led_workspace(request)
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
    workspace = await led_workspace(request)
    _writable(workspace)
    daemon = request.app["daemon"]
    async with daemon.tree_lock(workspace.pk):
        await daemon.thread(files.delete, await _tree(request, workspace), _path(request))
    daemon.vitals.forget(workspace.pk)
    return web.json_response({})


@routes.post("/workspaces/{id}/tree")
async def tree(request):
    """Store the live tree without a snapshot row → {"tree", "entries", "bytes"}."""
    workspace = await led_workspace(request)
    daemon = request.app["daemon"]
    async with daemon.tree_lock(workspace.pk):
        kept = await daemon.thread(snapshots.scan, workspace, await _tree(request, workspace))
    return web.json_response({"tree": kept.tree, "entries": kept.entries, "bytes": kept.bytes})


@routes.post("/workspaces/{id}/tree-stats")
async def stats(request):
    """{"patterns": [path]} → tree_stats.TreeStats of what the shell patterns match in the live tree."""
    workspace, asked = await led_workspace(request), await request.json()
    return await _tree_stats(request, workspace, [os.fsencode(pattern) for pattern in asked["patterns"]], exact=False)


@routes.post("/workspaces/{id}/git-clean")
async def git_clean(request):
    """{"folder", "flags", "paths"} → tree_stats.TreeStats of what `git clean` would remove, or {"error": sentence}."""
    workspace, asked = await led_workspace(request), await request.json()
    answer = await sandbox.ask(workspace, await _tree(request, workspace), asked | {"what": "clean"})
    if "error" in answer:
        return web.json_response(answer)
    return await _tree_stats(
        request, workspace, [os.fsencode(path.rstrip("/")) for path in answer["paths"]], exact=True
    )


async def _tree_stats(request, workspace, paths: list[bytes], *, exact: bool):
    tree = await _tree(request, workspace)

    def count():
        with files.in_words():
            return tree_stats.count(tree, paths, exact=exact)

    return web.json_response(tree_stats.as_json(await request.app["daemon"].thread(count)))


@routes.post("/workspaces/{id}/git-push")
async def git_push(request):
    """{"folder", "remote", "refspecs"} → what a push would send where (git/probe.py push), or {"error": sentence}."""
    workspace, asked = await led_workspace(request), await request.json()
    tree = await _tree(request, workspace)
    how = {"seconds": OWN_SECONDS} if asked.get("own") else {}  # a page waits longer than an agent's call
    return web.json_response(await sandbox.ask(workspace, tree, asked | {"what": "push"}, **how))


@routes.post("/workspaces/{id}/pull-request-base")
async def pull_request_base(request):
    """Answer {"base"} with what operations/pull_request.py base_branch returns."""
    workspace, asked = await led_workspace(request), await request.json()
    return web.json_response(await pull_request.base_branch(workspace, asked["base"], request.app["daemon"].thread))


@routes.post("/workspaces/{id}/git-uncommitted")
async def git_uncommitted(request):
    """{"folder"} → {"sha256"} of all a commit could include (git/probe.py uncommitted), or {"error": sentence}."""
    workspace, asked = await led_workspace(request), await request.json()
    tree = await _tree(request, workspace)
    return web.json_response(await sandbox.ask(workspace, tree, asked | {"what": "uncommitted"}))


@routes.post("/workspaces/{id}/git-since")
async def git_since(request):
    """{"folder", "base", "tip"} → {"commits"} of `tip` that came after `base` (git/probe.py since), or {"error"}."""
    workspace, asked = await led_workspace(request), await request.json()
    tree = await _tree(request, workspace)
    return web.json_response(await sandbox.ask(workspace, tree, asked | {"what": "since"}))


@routes.post("/workspaces/{id}/links")
async def links(request):
    """{"paths", "root", "seconds"} → {"links": {path: target}, "complete"}; see tree_stats.links.

    With "secrets": true also the `secrets` of the tree, with "tools": [name] and "folder" those `installed` there, and
    with "programs": [name] `resolves_to` {name: path} of those that the PATH finds outside the system's folders.
    """
    workspace, asked = await led_workspace(request), await request.json()
    look_ahead.begin(request.app["daemon"], workspace)  # a judge asks, before a call that may need a snapshot
    tree = await _tree(request, workspace)
    programs = [name for name in asked.get("programs", []) if "/" not in name and "\0" not in name]
    search = await tree_access.search_path(request.app["daemon"], workspace) if programs else ""

    def find_links():
        paths, root = [os.fsencode(path) for path in asked["paths"]], os.fsencode(asked["root"])
        with files.in_words():
            found, is_complete = tree_stats.links(tree, paths, root, seconds=asked["seconds"])
            secrets = known_files.secrets(tree, seconds=asked["seconds"] / 2) if asked.get("secrets") else []
            tools = [tool for tool in asked.get("tools", []) if "/" not in tool and "\0" not in tool]
            installed = known_files.installed(tree, tools, os.fsencode(asked.get("folder", ""))) if tools else []
        told = {os.fsdecode(path): os.fsdecode(target) for path, target in found.items()}
        known = {"secrets": [os.fsdecode(path) for path in secrets], "installed": installed}
        seconds = asked["seconds"] / 2
        at = bound_files.resolved_programs(workspace, tree, search, programs, seconds) if programs else {}
        known["resolves_to"] = at
        return {"links": told, "complete": is_complete} | known

    return web.json_response(await request.app["daemon"].thread(find_links))


@routes.post("/workspaces/{id}/tickets")
async def tickets(request):
    """{"command", "cwd", "envelope", "reads"} → {"ticket"} for handrail-run: it may run once, in the folder's box."""
    workspace, asked = await led_workspace(request), await request.json()
    _writable(workspace)
    ticket = await held_calls.give_ticket(request.app["daemon"], workspace, **asked)
    return web.json_response({"ticket": ticket})


@routes.post("/workspaces/{id}/tickets/ended")
async def ticket_ended(request):
    """{"ticket", "since"} → {"blocked", "ports"} of the command of a ticket, which has ended (`held_calls.ended`)."""
    workspace, asked = await led_workspace(request), await request.json()
    return web.json_response(await held_calls.ended(request.app["daemon"], workspace, **asked))


@routes.post("/workspaces/{id}/passes")
async def passes(request):
    """{"token", "hosts"} → {}: the command with this pass may reach these hosts (`held_calls.open_hosts`)."""
    workspace, asked = await led_workspace(request), await request.json()
    await held_calls.open_hosts(request.app["daemon"], workspace, **asked)
    return web.json_response({})


@routes.post("/workspaces/{id}/passes/ended")
async def pass_ended(request):
    """{"token"} → {}: the command with this pass has ended."""
    workspace, asked = await led_workspace(request), await request.json()
    await held_calls.close_hosts(request.app["daemon"], workspace, **asked)
    return web.json_response({})


@routes.post("/workspaces/{id}/redacted-files")
async def offered_redactions(request):
    """{} → {"files": [path]}: secret files that a program could be let to read, redacted (`redacted_files.py`)."""
    workspace = await led_workspace(request)
    tree = await _tree(request, workspace)
    return web.json_response({"files": await request.app["daemon"].thread(redacted_files.offered, tree)})


@routes.post("/workspaces/{id}/previews/{port}")
async def open_preview(request):
    """→ {"socket": path}: where this port of the workspace's Run is reached; Problem 409 if nothing listens there."""
    return web.json_response({"socket": str(await _preview(request))})


@routes.get("/workspaces/{id}/previews/{port}")
async def pass_preview(request):
    """Upgrade to a connection to this port of the workspace's Run, for the web of another host."""
    return await streams.pass_to_socket(request, await _preview(request))


async def _preview(request) -> Path:
    workspace, daemon = await led_workspace(request), request.app["daemon"]
    run = await daemon.thread(snapshots.open_run, workspace)
    owner = await daemon.owner_of(daemon.driver(workspace.environment.driver), run.pk) if run else None
    if owner is None:
        raise Problem(409, f"{workspace.key} is not up.", code="not_up")
    return await daemon.network.previews.open(owner, int(request.match_info["port"]))


@routes.post("/workspaces/{id}/ports/close")
async def close_port(request):
    """{"port", "by"} → {"closed"}: stop forwarding a port of the folder's box; false if it is not forwarded."""
    workspace, asked = await led_workspace(request), await request.json()
    daemon = request.app["daemon"]
    run = await daemon.thread(snapshots.open_run, workspace)
    forwarded = daemon.network.box_ports(run.pk) if run else None
    closed = forwarded is not None and await forwarded.close_port(asked["port"], by=Actor(**asked["by"]))
    return web.json_response({"closed": closed})


@routes.post("/workspaces/{id}/ports/host")
async def set_host_ports(request):
    """Let the folder's box reach the ports of this host that its row names, and no others."""
    workspace, daemon = await led_workspace(request), request.app["daemon"]
    run = await daemon.thread(snapshots.open_run, workspace)
    if run is not None:
        await daemon.network.set_host_ports(run.pk, workspace.host_ports)
    return web.json_response({})


@routes.post("/workspaces/{id}/contents")
async def run_contents(request):
    """{"files": [[path, kind, keeps]], "seconds"} → as bound_files.read, with `content` in base64."""
    workspace, asked = await led_workspace(request), await request.json()
    tree = await _tree(request, workspace)
    search = await tree_access.search_path(request.app["daemon"], workspace)
    seconds = min(float(asked["seconds"]), 10.0)
    told = await request.app["daemon"].thread(bound_files.read, workspace, tree, search, asked["files"], seconds)
    for file in told["files"]:
        file["path"] = os.fsdecode(file["path"])
        if "content" in file:
            file["content"] = base64.b64encode(file["content"]).decode()
    return web.json_response(told)


@routes.post("/workspaces/{id}/mcp-servers")
async def run_mcp_servers(request):
    """{"tool", "cwd", "seconds"} → {"servers"}: which servers a tool's name may mean, as mcp_servers.read."""
    workspace, asked = await led_workspace(request), await request.json()
    tree, seconds = await _tree(request, workspace), min(float(asked["seconds"]), 10.0)
    reading = request.app["daemon"].thread(mcp_servers.read, workspace, tree, asked["tool"], asked["cwd"], seconds)
    return web.json_response({"servers": await reading})


@routes.post("/workspaces/{id}/policy-file")
async def run_policy_file(request):
    """{} → as policy_file.read."""
    workspace = await led_workspace(request)
    tree = await _tree(request, workspace)
    return web.json_response(await request.app["daemon"].thread(policy_file.read, tree))


async def cancel_program(folder: Path):
    """Cancel a running program; no effect on one that has ended. An error is only logged."""
    try:
        await client.cancel(folder)
    except (OSError, DriverError) as error:
        logger.warning("could not cancel %s: %s", folder.name, error)


@routes.get("/ping")
async def ping(request):
    return web.Response(text=json.dumps({"pid": os.getpid()}), content_type="application/json")
