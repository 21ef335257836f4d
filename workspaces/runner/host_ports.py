"""Ports of this host's loopback that a person lets the box of a connected folder reach, such as a database's."""

import asyncio
import contextlib
import logging

from workspaces.egress.attempts import Attempt
from workspaces.egress.listeners import NoListeners
from workspaces.egress.relay import DISCONNECTED, Flow, Peer, tunnel

logger = logging.getLogger("handrail.egress")
LOOPBACK = "127.0.0.1"
CONNECT_S = 10


class HostPorts:
    """Listeners on the loopback of one Run's box, each relayed to the same port of this host's loopback."""

    def __init__(self, daemon, opener, owner):
        self._daemon, self._opener, self._owner = daemon, opener, owner
        self._served: dict[int, asyncio.Server] = {}
        self._tasks: dict[asyncio.Task, int] = {}  # task of an open connection: its port
        self._setting = asyncio.Lock()

    @property
    def ports(self) -> set[int]:
        return set(self._served)

    async def set(self, wanted: list[int]):
        """Serve exactly these ports; end the connections to others. One that a program of the box holds is left."""
        async with self._setting:
            for port in self.ports - set(wanted):
                self._stop(port)
            for port in sorted(set(wanted) - self.ports):
                await self._serve(port)

    async def _serve(self, port: int):
        async def accepted(reader, writer):
            task = asyncio.current_task()
            self._tasks[task] = port
            task.add_done_callback(self._tasks.pop)
            await self._relay(Peer(reader, writer), port)

        try:
            [listener] = await self._daemon.thread(
                self._opener.listen, self._owner.pid, self._owner.start_time, (port,)
            )
        except NoListeners as error:
            logger.info("port %s of this host is not reached from %s: %s", port, self._owner.run_id, error)
            return
        self._served[port] = await asyncio.start_server(accepted, sock=listener)

    async def _relay(self, program: Peer, port: int):
        try:
            async with asyncio.timeout(CONNECT_S):
                service = Peer(*await asyncio.open_connection(LOOPBACK, port))
            with contextlib.suppress(*DISCONNECTED):
                await tunnel(program, service, Flow(Attempt(LOOPBACK, port, "", allowed=True)), b"")
            await service.close()
        except DISCONNECTED as error:
            logger.info("port %s of this host: %s", port, error)
        finally:
            await program.close()

    def _stop(self, port: int):
        self._served.pop(port).close()
        for task in [task for task, its in self._tasks.items() if its == port]:
            task.cancel()

    async def close(self):
        """Stop all: the Run has ended, or the runner stops."""
        await self.set([])
