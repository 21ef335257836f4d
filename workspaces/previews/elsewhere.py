"""Previews of programs on other hosts: a unix socket here, each of whose connections goes on to the lead's runner."""

import asyncio
import contextlib
import os
from collections import OrderedDict

from dashboard.keys.key_files import make_private
from workspaces.host import leads, paths
from workspaces.host.leads import Lead, Unreachable

PIECE = 1 << 16
MOST = 100  # sockets that stay open
_served: OrderedDict[str, asyncio.Server] = OrderedDict()
_tasks: set[asyncio.Task] = set()


async def socket_to(lead: Lead, workspace_id, run_id, port: int) -> str:
    """Return the path of a unix socket at which a port of a Run on another host is reached."""
    path = make_private(paths.runtime() / "previews") / f"{run_id}-{port}.{os.getpid()}"
    if str(path) not in _served:
        path.unlink(missing_ok=True)
        server = await asyncio.start_unix_server(_accepted(lead, f"/workspaces/{workspace_id}/previews/{port}"), path)
        _served[str(path)] = server
        while len(_served) > MOST:
            oldest, ended = _served.popitem(last=False)
            ended.close()
            with contextlib.suppress(OSError):
                os.unlink(oldest)
    _served.move_to_end(str(path))
    return str(path)


def _accepted(lead: Lead, address: str):
    async def accepted(reader, writer):
        task = asyncio.current_task()
        _tasks.add(task)
        task.add_done_callback(_tasks.discard)
        try:
            there = await leads.open_stream(lead, address)
        except Unreachable:
            writer.close()  # who asked is told that nothing answers
            return
        try:
            await _join((reader, writer), there)
        finally:
            writer.close()
            there[1].close()

    return accepted


async def _join(one, other):
    both = {asyncio.ensure_future(_pass(one[0], other[1])), asyncio.ensure_future(_pass(other[0], one[1]))}
    _, left = await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
    for task in left:
        task.cancel()
    await asyncio.gather(*left, return_exceptions=True)


async def _pass(reader: asyncio.StreamReader, writer: asyncio.StreamWriter):
    with contextlib.suppress(OSError):
        while piece := await reader.read(PIECE):
            writer.write(piece)
            await writer.drain()
