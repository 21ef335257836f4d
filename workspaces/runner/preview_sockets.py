"""Sockets through which web reaches ports inside Runs: a unix socket for each previewed port."""

import asyncio
import contextlib
import logging
import socket
from pathlib import Path

from dashboard.problems import conflict
from workspaces.egress.attempts import Attempt
from workspaces.egress.listeners import NoListeners, Opener
from workspaces.egress.relay import DISCONNECTED, Flow, Peer, tunnel
from workspaces.host import paths
from workspaces.runner.measure import ports

logger = logging.getLogger("handrail.egress")
CONNECT_S = 10
# Addresses that the Run's loopback reaches, the first choice first: {address listened on: address to connect to}.
REACHED = {"127.0.0.1": "127.0.0.1", "::ffff:127.0.0.1": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1", "::1": "::1"}


async def connect_into(daemon, opener: Opener, owner, address: str, port: int) -> Peer:
    """Connect to a port inside a Run's network. Raise OSError or NoListeners."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    inside = await daemon.thread(opener.make_socket, owner.pid, owner.start_time, family)
    try:
        async with asyncio.timeout(CONNECT_S):
            await asyncio.get_running_loop().sock_connect(inside, (address, port))
    except BaseException:
        inside.close()
        raise
    return Peer(*await asyncio.open_connection(sock=inside))


async def _dialled(daemon, owner, port: int) -> Peer | None:
    """Connect to a port of a driver that has its own way in: at 127.0.0.1, else ::1. None: it has none."""
    if (inside := await daemon.driver(owner.driver).dial(owner, port)) is None:
        return None
    inside.setblocking(False)
    return Peer(*await asyncio.open_connection(sock=inside))


async def connect_back(daemon, opener: Opener, owner, addresses: tuple[str, ...], port: int) -> Peer:
    """Connect to the first of some loopback addresses inside a Run that answers. Raise OSError or NoListeners."""
    if (inside := await _dialled(daemon, owner, port)) is not None:
        return inside
    for address in addresses[:-1]:
        with contextlib.suppress(OSError):
            return await connect_into(daemon, opener, owner, address, port)
    return await connect_into(daemon, opener, owner, addresses[-1], port)


class PreviewSockets:
    """The open sockets of all Runs of this host."""

    def __init__(self, daemon, opener: Opener):
        self._daemon, self._opener = daemon, opener
        self._served: dict[tuple[str, int], asyncio.Server] = {}
        self._tasks: set[asyncio.Task] = set()
        self._opening = asyncio.Lock()

    async def open(self, owner, port: int) -> Path:
        """Serve a port of a Run; idempotent. Problem 409 if nothing listens there."""
        path = paths.preview_of(owner.run_id, port)
        if await self._address(owner, port) is None:
            raise conflict(f"Nothing listens on port {port}.", code="nothing_listens")
        async with self._opening:
            if (str(owner.run_id), port) not in self._served:
                path.parent.mkdir(mode=0o700, exist_ok=True)
                path.unlink(missing_ok=True)  # of a runner that was killed
                served = await asyncio.start_unix_server(self._accepted(owner, port), path)
                self._served[str(owner.run_id), port] = served
        return path

    def _accepted(self, owner, port: int):
        async def accepted(reader, writer):
            task = asyncio.current_task()
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            await self._relay(Peer(reader, writer), owner, port)

        return accepted

    async def _relay(self, web: Peer, owner, port: int):
        try:
            if (program := await self._connect(owner, port)) is None:
                return
            with contextlib.suppress(*DISCONNECTED):
                await tunnel(web, program, Flow(Attempt("localhost", port, "", allowed=True)), b"")
            await program.close()
        except (*DISCONNECTED, NoListeners) as error:
            logger.info("preview of port %s of run %s: %s", port, owner.run_id, error)
        finally:
            await web.close()

    async def _connect(self, owner, port: int) -> Peer | None:
        if (inside := await _dialled(self._daemon, owner, port)) is not None:
            return inside
        if (address := await self._address(owner, port)) is None:
            return None
        return await connect_into(self._daemon, self._opener, owner, address, port)

    async def _address(self, owner, port: int) -> str | None:
        """Return the address to connect to: a program may have started anew on another one."""
        listened = await ports.of(self._daemon.driver(owner.driver), owner)
        at = {each["address"] for each in listened if each["port"] == port}
        return next((reached for address, reached in REACHED.items() if address in at), None)

    async def close(self, run_id):
        """Close the sockets of a Run that has ended."""
        for name in [name for name in self._served if name[0] == str(run_id)]:
            self._served.pop(name).close()
            paths.preview_of(*name).unlink(missing_ok=True)

    async def shut(self):
        for run_id in {name[0] for name in self._served}:
            await self.close(run_id)
        for task in list(self._tasks):
            task.cancel()
