"""Ports that programs in the box of a connected folder listen on, forwarded from this host's loopback."""

import asyncio
import contextlib
import logging

from django.conf import settings

from dashboard.models import Actor, Team
from workspaces import lifecycle
from workspaces.egress.attempts import Attempt
from workspaces.egress.listeners import NoListeners
from workspaces.egress.relay import DISCONNECTED, Flow, Peer, tunnel
from workspaces.models import Run, Workspace
from workspaces.runner import known_services
from workspaces.runner.host_ports import HostPorts
from workspaces.runner.measure import ports
from workspaces.runner.preview_sockets import REACHED, connect_into

logger = logging.getLogger("handrail.egress")
LOOPBACK = "127.0.0.1"
FIRST_PORT = 1024  # lower ones are not forwarded
MAX_PORTS = 32  # forwarded at once, of one box
PROGRAM = Actor.system("runner")


class BoxPorts:
    """The forwarded ports of one Run: the same port on 127.0.0.1, or another one.

    Another one if that is taken here, or could stand in for a service that programs of this host know by its number.
    """

    def __init__(self, daemon, opener, owner, workspace, *, reserved: HostPorts):
        self._reserved = reserved  # ports that we listen on in the box
        self._daemon, self._opener, self._owner, self._workspace = daemon, opener, owner, workspace
        self._served: dict[int, asyncio.Server] = {}  # by port in the box
        self._untold: set[int] = set()  # served by another port of this host, which the agent has not heard of
        self._closed: set[int] | None = None  # by a person, until the program stops listening; None: not looked up yet
        self._saved: tuple | None = None  # what the Run's row says, as far as known
        self._tasks: set[asyncio.Task] = set()
        self._looking = asyncio.Lock()

    async def update_forwards(self):
        """Forward ports that are new in the box, and stop forwarding those that nothing listens on any more."""
        async with self._looking:
            found = self._by_port(await ports.of(self._daemon.driver(self._owner.driver), self._owner))
            if self._closed is None:
                self._closed = await self._daemon.thread(self._closed_before)
            self._closed &= set(found)
            gone = [port for port in self._served if port not in found]
            new = [port for port in found if port not in self._served and port not in self._closed]
            for port in gone:
                await self._stop(port)
            added = [port for port in new[: MAX_PORTS - len(self._served)] if await self._serve(port, found[port])]
            await self._save(added, [])

    def _closed_before(self) -> set[int]:
        """Return the ports that a person closed while an earlier runner served them."""
        return set(Run.objects.values_list("closed_ports", flat=True).get(pk=self._owner.run_id))

    def _by_port(self, listened: list[dict]) -> dict[int, str]:
        """Return {port: address to connect to in the box}."""
        order = list(REACHED)
        known = [at for at in listened if at["address"] in REACHED and at["port"] >= FIRST_PORT]
        known = [at for at in known if at["port"] not in self._reserved.ports]
        known.sort(key=lambda at: order.index(at["address"]), reverse=True)
        return {at["port"]: REACHED[at["address"]] for at in known}

    async def _serve(self, port: int, address: str) -> bool:
        async def accepted(reader, writer):
            task = asyncio.current_task()
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            await self._relay(Peer(reader, writer), address, port)

        wanted = [0] if port == settings.HANDRAIL_PORT or port in known_services.KNOWN else [port, 0]
        for here in wanted:
            try:
                self._served[port] = await asyncio.start_server(accepted, LOOPBACK, here)
                break
            except OSError:
                continue  # taken on this host
        else:
            return False
        if self._host_port(port) != port:
            self._untold.add(port)
        return True

    async def _relay(self, outside: Peer, address: str, port: int):
        try:
            program = await connect_into(self._daemon, self._opener, self._owner, address, port)
            with contextlib.suppress(*DISCONNECTED):
                await tunnel(outside, program, Flow(Attempt(address, port, "", allowed=True)), b"")
            await program.close()
        except (*DISCONNECTED, NoListeners) as error:
            logger.info("port %s of %s: %s", port, self._workspace.key, error)
        finally:
            await outside.close()

    async def _stop(self, port: int):
        self._untold.discard(port)
        server = self._served.pop(port)
        server.close()

    def _host_port(self, port: int) -> int:
        return self._served[port].sockets[0].getsockname()[1]

    def forwarded(self) -> list[dict]:
        """Return [{port, host_port}] as they are now."""
        return [{"port": port, "host_port": self._host_port(port)} for port in sorted(self._served)]

    async def moved(self) -> list[dict]:
        """Return [{port, host_port}] of ports that another one leads to, as theirs is taken here; each only once."""
        await self.update_forwards()
        untold, self._untold = self._untold, set()
        return [each for each in self.forwarded() if each["port"] in untold]

    async def _save(self, added: list[int], closed: list[int], by: Actor = PROGRAM):
        """Write down what is forwarded and closed, if that has changed; events for `added` and `closed`."""
        now, shut = self.forwarded(), sorted(self._closed or ())
        if (now, shut) != self._saved:
            await self._daemon.thread(self._write, now, shut, added, closed, by)
            self._saved = now, shut

    def _write(self, now: list[dict], shut: list[int], added: list[int], closed: list[int], by: Actor):
        with Team.objects.turn(self._workspace.team_id):
            Run.objects.filter(pk=self._owner.run_id).update(forwarded=now, closed_ports=shut)
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
            await self._save([], [port], by)
            return True

    async def close(self):
        """Stop all: the Run has ended, or the runner stops."""
        for port in list(self._served):
            await self._stop(port)
        for task in list(self._tasks):
            task.cancel()
