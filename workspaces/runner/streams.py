"""Connections that webs of other hosts keep open: to the socket of a program or of a preview, and a followed output.

A web asks with `Upgrade: handrail-stream` (host/leads.py). What is a unix socket here is passed on byte for byte.
"""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from aiohttp import web

from dashboard.problems import Problem
from workspaces.drivers.init_client import short_address
from workspaces.host.leads import UPGRADE
from workspaces.shim.recording import Gap, Output, Resized

PIECE = 1 << 16
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
GONE = (OSError, EOFError, asyncio.IncompleteReadError)


class _Into:
    """What aiohttp hands the bytes to that follow an upgrade: a reader of asyncio."""

    def __init__(self, reader: asyncio.StreamReader):
        self._reader = reader

    def feed_data(self, data: bytes) -> tuple[bool, bytes]:
        self._reader.feed_data(data)
        return False, b""

    def feed_eof(self):
        self._reader.feed_eof()


@asynccontextmanager
async def upgraded(request) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """Answer 101 and yield the connection as streams; it is closed afterwards. Problem 400 without the upgrade."""
    if request.headers.get("Upgrade") != UPGRADE or request.transport is None:
        raise Problem(400, f"Ask for it with Upgrade: {UPGRADE}.")
    transport, loop = request.transport, asyncio.get_running_loop()
    response = web.StreamResponse(status=101, headers={"Upgrade": UPGRADE, "Connection": "Upgrade"})
    response.force_close()
    await response.prepare(request)
    reader = asyncio.StreamReader(limit=PIECE, loop=loop)
    reader.set_transport(transport)
    request.protocol.set_parser(_Into(reader))
    writer = asyncio.StreamWriter(transport, request.protocol, None, loop)
    request["upgraded"] = response
    try:
        yield reader, writer
    finally:
        with contextlib.suppress(OSError):
            await writer.drain()
        transport.close()


async def pass_to_socket(request, path: Path) -> web.StreamResponse:
    """Pass the connection on to a unix socket, until either end closes. Problem 409 if nobody listens there."""

    async def connect():
        with short_address(path) as address:
            return await asyncio.open_unix_connection(address)

    return await pass_on(request, connect)


async def pass_on(request, connect: Callable[[], Awaitable[Streams]]) -> web.StreamResponse:
    """Pass the connection on to what `connect` opens, until either end closes. Problem 409 if that fails."""
    try:
        inner = await connect()
    except OSError:
        raise Problem(409, "Nobody listens there.", code="not_up") from None
    try:
        async with upgraded(request) as outer:
            await join(outer, inner)
    finally:
        inner[1].close()
    return request["upgraded"]


async def join(one: Streams, other: Streams):
    """Pass bytes both ways until either end closes, and close both."""
    both = {asyncio.ensure_future(_pass(one[0], other[1])), asyncio.ensure_future(_pass(other[0], one[1]))}
    try:
        _, left = await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        await _end(left)
    finally:
        for _, writer in (one, other):
            writer.close()


async def _end(tasks):
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def _pass(reader: asyncio.StreamReader, writer: asyncio.StreamWriter):
    with contextlib.suppress(*GONE):
        while (piece := await reader.read(PIECE)) and not writer.is_closing():
            writer.write(piece)
            await writer.drain()


async def send_parts(request, parts: AsyncIterator[Output | Gap | Resized]) -> web.StreamResponse:
    """Send the parts of an output as they come: a line of JSON for each, and the bytes of an Output after it.

    {"output": offset, "bytes": n} · {"gap": [start, end]} · {"size": [offset, cols, rows]} · {"end": true}
    """
    async with upgraded(request) as (reader, writer):
        sending = asyncio.ensure_future(_send(parts, writer))
        leaving = asyncio.ensure_future(_pass(reader, writer))  # the other end sends nothing: it only leaves
        await asyncio.wait({sending, leaving}, return_when=asyncio.FIRST_COMPLETED)
        await _end({sending, leaving})
    return request["upgraded"]


async def _send(parts, writer: asyncio.StreamWriter):
    with contextlib.suppress(*GONE):
        async with contextlib.aclosing(parts):
            async for part in parts:
                if writer.is_closing():
                    return
                writer.write(_line(part))
                if isinstance(part, Output):
                    writer.write(part.data)
                await writer.drain()
        writer.write(json.dumps({"end": True}).encode() + b"\n")
        await writer.drain()


def _line(part: Output | Gap | Resized) -> bytes:
    if isinstance(part, Output):
        told = {"output": part.offset, "bytes": len(part.data)}
    elif isinstance(part, Gap):
        told = {"gap": [part.start, part.end]}
    else:
        told = {"size": [part.offset, part.cols, part.rows]}
    return json.dumps(told).encode() + b"\n"
