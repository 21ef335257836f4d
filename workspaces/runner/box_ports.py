"""Ports that programs in the box of a connected folder listen on, forwarded from this host's loopback."""

import asyncio
import contextlib
import logging
import socket
from datetime import datetime

from django.conf import settings
from django.db import transaction

from dashboard import clock
from dashboard.models import Actor
from workspaces import lifecycle
from workspaces.egress.attempts import Attempt
from workspaces.egress.listeners import NoListeners
from workspaces.egress.relay import DISCONNECTED, Flow, Peer, tunnel
from workspaces.models import Run, Workspace
from workspaces.runner.measure import ports

logger = logging.getLogger("handrail.egress")
LOOPBACK = "127.0.0.1"
FIRST_PORT = 1024  # lower ones are not forwarded
MAX_PORTS = 32  # forwarded at once, of one box
# Addresses that the box's loopback reaches, the first choice first: {address listened on: address to connect to}.
REACHED = {"127.0.0.1": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1", "::1": "::1"}
PROGRAM = Actor.system("runner")


class BoxPorts:
    """The forwarded ports of one Run: the same port on 127.0.0.1, or another one if that is taken here."""

    def __init__(self, daemon, opener, owner, workspace):
        self._daemon, self._opener, self._owner, self._workspace = daemon, opener, owner, workspace
        self._served: dict[int, asyncio.Server] = {}  # by port in the box
        self._since: dict[int, datetime] = {}  # when a served port was found
        self._closed: set[int] = set()  # by a person; not opened again before the program stops listening
        self._tasks: set[asyncio.Task] = set()
        self._looking = asyncio.Lock()

    async def look(self):
        """Forward ports that are new in the box, and stop forwarding those that nothing listens on any more."""
        async with self._looking:
            found = self._by_port(await ports.of(self._daemon.driver(self._owner.driver), self._owner))
            self._closed &= set(found)
            gone = [port for port in self._served if port not in found]
            new = [port for port in found if port not in self._served and port not in self._closed]
            for port in gone:
                await self._stop(port)
            added = [port for port in new[: MAX_PORTS - len(self._served)] if await self._serve(port, found[port])]
            if gone or added:
                await self._daemon.thread(self._save, added, [])

    def _by_port(self, listened: list[dict]) -> dict[int, str]:
        """Return {port: address to connect to in the box}."""
        order = list(REACHED)
        known = [at for at in listened if at["address"] in REACHED and at["port"] >= FIRST_PORT]
        known.sort(key=lambda at: order.index(at["address"]), reverse=True)
        return {at["port"]: REACHED[at["address"]] for at in known}

    async def _serve(self, port: int, address: str) -> bool:
        async def accepted(reader, writer):
            task = asyncio.current_task()
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            await self._relay(Peer(reader, writer), address, port)

        wanted = [0] if port == settings.HANDRAIL_PORT else [port, 0]
        for here in wanted:
            try:
                self._served[port] = await asyncio.start_server(accepted, LOOPBACK, here)
                self._since[port] = await self._daemon.thread(clock.now)
                return True
            except OSError:
                continue  # taken on this host
        return False

    async def _relay(self, outside: Peer, address: str, port: int):
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        try:
            inside = await self._daemon.thread(
                self._opener.make_socket, self._owner.pid, self._owner.start_time, family
            )
            async with asyncio.timeout(10):
                await asyncio.get_running_loop().sock_connect(inside, (address, port))
            program = Peer(*await asyncio.open_connection(sock=inside))
            with contextlib.suppress(*DISCONNECTED):
                await tunnel(outside, program, Flow(Attempt(address, port, "", allowed=True)), b"")
            await program.close()
        except (*DISCONNECTED, NoListeners) as error:
            logger.info("port %s of %s: %s", port, self._workspace.key, error)
        finally:
            await outside.close()

    async def _stop(self, port: int):
        server = self._served.pop(port)
        server.close()

    def forwarded(self) -> list[dict]:
        """Return [{port, host_port}] as they are now."""
        here = {port: server.sockets[0].getsockname()[1] for port, server in self._served.items() if server.sockets}
        return [{"port": port, "host_port": here[port]} for port in sorted(here)]

    async def moved(self, since: datetime) -> list[dict]:
        """Return [{kind: port, what}] of ports found since then that another one leads to, as theirs is taken here."""
        await self.look()
        moved = [each for each in self.forwarded() if each["port"] != each["host_port"]]
        new = [each for each in moved if self._since[each["port"]] >= since]
        return [
            {"kind": "port", "what": f"{each['port']} (in use here; 127.0.0.1:{each['host_port']})"} for each in new
        ]

    def _save(self, added: list[int], closed: list[int], by: Actor = PROGRAM):
        now = self.forwarded()
        with transaction.atomic():
            Run.objects.filter(pk=self._owner.run_id).update(forwarded=now)
            workspace = Workspace.objects.get(pk=self._workspace.pk)
            for entry in (entry for entry in now if entry["port"] in added):
                where = f"{LOOPBACK}:{entry['host_port']}"
                lifecycle.record(
                    workspace, by, "network.port_forwarded", {**entry, "reason": f"{entry['port']} at {where}"}
                )
            for port in closed:
                lifecycle.record(workspace, by, "network.port_closed", {"port": port, "reason": str(port)})

    async def close_port(self, port: int, *, by: Actor) -> bool:
        """Stop forwarding a port until its program stops listening; False if it is not forwarded."""
        async with self._looking:
            if port not in self._served:
                return False
            self._closed.add(port)
            await self._stop(port)
            await self._daemon.thread(self._save, [], [port], by)
            return True

    async def close(self):
        """Stop all: the Run has ended, or the runner stops."""
        for port in list(self._served):
            await self._stop(port)
        for task in list(self._tasks):
            task.cancel()
