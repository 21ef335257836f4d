"""The runner's API of programs and their recordings, for webs and queues of other hosts (programs/recordings.py)."""

import json
from uuid import UUID

from aiohttp import web

from dashboard.problems import not_found
from workspaces.host import paths
from workspaces.models import Command, Terminal
from workspaces.programs import recordings
from workspaces.programs.recordings import Recording
from workspaces.runner import streams
from workspaces.runner.led import led_workspace

routes = web.RouteTableDef()


async def _recording(request) -> Recording:
    """Return the recording of a program of the workspace. Problem 404 for one of another workspace."""
    workspace, thread = await led_workspace(request), request.app["daemon"].thread
    return await thread(_found, workspace, request.match_info["operation"])


def _found(workspace, operation: str) -> Recording:
    """Return the recording in the workspace's folder, without a query; else the copy that its row knows."""
    try:
        folder = paths.program_of(workspace.pk, UUID(operation))
    except ValueError:
        raise not_found("program") from None
    if folder.exists():
        return Recording(folder)
    for model in (Command, Terminal):
        program = model.objects.filter(workspace=workspace, operation=operation).first()
        if program is not None:
            program.workspace = workspace
            return recordings.of(program)
    raise not_found("program")


@routes.get("/workspaces/{id}/programs/{operation}")
async def about(request):
    """→ recordings.told: {exists, began_at, printed_at, length, status}."""
    recording = await _recording(request)
    return web.json_response(await request.app["daemon"].thread(recordings.told, recording))


@routes.get("/workspaces/{id}/programs/{operation}/output")
async def output(request):
    """→ what was recorded so far, from `offset` on, with a line of text for each gap."""
    recording = await _recording(request)
    return await _send(request, recording.pieces(int(request.query.get("offset", 0))))


@routes.get("/workspaces/{id}/programs/{operation}/tail")
async def tail(request):
    """→ a line with the number of bytes before, and the last `size` bytes of what was recorded so far."""
    recording = await _recording(request)
    data, before = await request.app["daemon"].thread(recording.tail, int(request.query["size"]))
    return web.Response(body=b"%d\n" % before + data)


@routes.get("/workspaces/{id}/programs/{operation}/cast")
async def cast(request):
    """→ the lines of an asciicast; `about`: JSON of what `Recording.cast` takes."""
    recording = await _recording(request)
    return await _send(request, (line.encode() for line in recording.cast(**json.loads(request.query["about"]))))


@routes.get("/workspaces/{id}/programs/{operation}/parts")
async def parts(request):
    """Upgrade to a stream of the output's parts from `offset` on (streams.send_parts)."""
    recording, asked = await _recording(request), request.query
    follow, sizes = asked.get("follow") == "1", asked.get("sizes") == "1"
    return await streams.send_parts(request, recording.parts(int(asked["offset"]), follow=follow, sizes=sizes))


@routes.get("/workspaces/{id}/programs/{operation}/shim")
async def shim(request):
    """Upgrade to a connection to the program's shim."""
    recording = await _recording(request)
    return await streams.pass_to_socket(request, recording.folder / "socket")


async def _send(request, pieces) -> web.StreamResponse:
    """Send pieces as they are read, so that a large recording is never in memory; a short one is one response."""
    thread = request.app["daemon"].thread
    piece, following = await thread(_two, pieces)
    if following is None:
        return web.Response(body=piece)
    response = web.StreamResponse()
    await response.prepare(request)
    await response.write(piece)
    while following is not None:
        await response.write(following)
        following = await thread(next, pieces, None)
    await response.write_eof()
    return response


def _two(pieces) -> tuple[bytes, bytes | None]:
    """Return the first piece, b"" without one, and the second, None without one."""
    return next(pieces, b""), next(pieces, None)
