"""Egress of this host's workspaces: a proxy for each Run, with listeners that its programs can reach.

`open` is called when a Run starts and again when a new runner adopts it, `close` when it ends; `tend` reopens missing
listeners. Attempts are counted in memory and saved every second; an allowed connection is saved before its first byte.
"""

import asyncio
import logging
import socket
import time
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from pathlib import Path

from django.conf import settings

from dashboard.database import clock
from dashboard.net.upstream import Upstream
from workspaces.drivers.base import DriverError, RunRecord
from workspaces.drivers.handrail_run import HOW_TO_ASK
from workspaces.drivers.sandbox.driver import hostname_of
from workspaces.egress.addresses import resolve_by_system, with_hosts_file
from workspaces.egress.attempts import Attempt, Block
from workspaces.egress.listeners import NoListeners, Opener
from workspaces.egress.passes import Passes
from workspaces.egress.proxy import Proxy
from workspaces.models import Run, Workspace
from workspaces.runner.box_ports import BoxPorts
from workspaces.runner.host_ports import HostPorts
from workspaces.runner.leashes import RunLeashes, upstream_of
from workspaces.runner.preview_sockets import PreviewSockets, connect_back
from workspaces.runner.web_elsewhere import WebElsewhere
from workspaces.services import network, run_tokens

logger = logging.getLogger("handrail.egress")
FLUSH_INTERVAL = 1.0
MAX_TALLIES = 1000  # distinct attempts of one Run between two flushes; further ones are counted together
TOKEN_EXTEND_INTERVAL = 3600.0
BLOCK_CACHE_SECONDS = 0.2  # a host that was allowed on another host may stay blocked for so long


def own_names(workspace) -> list[str]:
    """Return the host names of a workspace: of a connected folder that of this machine, unless it is below a domain."""
    name = socket.gethostname() if workspace.held else hostname_of(workspace.key)
    return [] if "." in name else [name]


@dataclass
class Tally:
    """Counts for one kind of attempt that are not in the database yet."""

    attempt: Attempt
    at: datetime
    times: int = 0


@dataclass
class RunRules:
    """One Run as the proxy sees it; implements egress.access_rules.AccessRules."""

    daemon: object
    workspace_id: object
    key: str
    phase: str
    tallies: dict = field(default_factory=dict)
    blocked: dict = field(default_factory=dict)  # cached: (host, port): (monotonic expiry, Block)
    open_tasks: dict = field(default_factory=dict)  # task of an open connection: its (host, port)
    reaches_handrail: bool = True  # whether its programs may ask Handrail itself

    @property
    def is_leashed(self) -> bool:
        """Whether credentials are put into its requests: those of an agent's programs, whose files trust us."""
        return self.phase == "agent" and self.reaches_handrail

    @property
    def is_at_work(self) -> bool:
        """Return whether there is something to save, or an open connection that may be revoked."""
        return bool(self.tallies or self.open_tasks)

    async def check(self, host: str, port: int) -> Block | None:
        """Return None if the host may be reached, else why not; only a block is cached, for BLOCK_CACHE_SECONDS.

        A host that is retried in a loop thus costs a few queries a second.
        """
        until, block = self.blocked.get((host, port), (0.0, None))
        if time.monotonic() < until:
            return block
        if block := await self.daemon.thread(network.why_blocked, self.workspace_id, self.phase, host, port):
            if len(self.blocked) >= MAX_TALLIES:
                self.blocked.clear()
            self.blocked[host, port] = (time.monotonic() + BLOCK_CACHE_SECONDS, block)
        return block

    async def admit(self, attempt: Attempt) -> Block | None:
        block, revocable = await self.daemon.thread(self._admit, attempt)
        if not block and revocable:
            self.open_tasks[asyncio.current_task()] = (attempt.host, attempt.port)
            self.daemon.network.at_work.set()
        return block

    def _admit(self, attempt: Attempt) -> tuple[Block | None, bool]:
        block, revocable = (
            (None, False)  # it ends with its pass
            if attempt.token
            else network.use(self.workspace_id, self.phase, attempt.host, attempt.port)
        )
        if not block:
            admitted = Attempt(attempt.host, attempt.port, attempt.method, allowed=True)
            network.count(self.workspace_id, self.phase, admitted, 1, clock.now())
        return block, revocable

    async def close_revoked(self):
        """End open connections to hosts that are no longer allowed; one from a single-use allowance goes on."""
        if targets := set(self.open_tasks.values()):
            gone = await self.daemon.thread(network.no_longer_allowed, self.workspace_id, self.phase, targets)
            for task in [task for task, target in self.open_tasks.items() if target in gone]:
                task.cancel()

    def log_blocked(self, attempt: Attempt):
        self._tally(Attempt(attempt.host, attempt.port, attempt.method, block=attempt.block), 1)

    def log_ended(self, attempt: Attempt):
        self.open_tasks.pop(asyncio.current_task(), None)
        self._tally(attempt, 0)

    def _tally(self, attempt: Attempt, times: int):
        key = (attempt.host, attempt.port, attempt.method, attempt.allowed, attempt.block)
        if key not in self.tallies and len(self.tallies) >= MAX_TALLIES:
            key = (network.OTHER_HOSTS, 0, "", attempt.allowed, attempt.block)
        if key not in self.tallies:
            blank = Attempt(key[0], key[1], key[2], allowed=key[3], block=key[4])
            self.tallies[key] = Tally(blank, datetime.now().astimezone())
            self.daemon.network.at_work.set()
        known = self.tallies[key]
        known.times += times
        known.attempt.sent += attempt.sent
        known.attempt.received += attempt.received
        known.at = datetime.now().astimezone()

    async def flush(self):
        tallies, self.tallies = self.tallies, {}
        if tallies:
            await self.daemon.thread(self._write, list(tallies.values()))

    def _write(self, tallies):
        for tally in tallies:
            network.count(self.workspace_id, self.phase, tally.attempt, tally.times, tally.at)

    def how_to_allow(self, host: str, port: int) -> str:
        if not self.reaches_handrail:
            return f"A person can allow it on the Network page of {self.key}. {HOW_TO_ASK}"
        return (
            f"A person can allow it on the Network page of {self.key}; to ask for it: "
            f"POST {network.URL}/api/v1/workspaces/{self.key}/network/allow "
            f'{{"host": "{host}", "port": {port}, "phase": "{self.phase}"}}'
        )


@dataclass
class _Open:
    rules: RunRules
    proxy: Proxy
    ports: BoxPorts | None = None  # of a connected folder's box
    host_ports: HostPorts | None = None  # that such a box reaches
    extended: float = field(default_factory=time.monotonic)


class Network:
    """The proxies and listeners of this host's open Runs, by run id."""

    def __init__(self, daemon):
        self.daemon = daemon
        self._opener = Opener()
        self.previews = PreviewSockets(daemon, self._opener)
        self.web = WebElsewhere(daemon)
        self._open: dict[str, _Open] = {}
        self._opening: set[str] = set()
        self._passes: dict[str, Passes] = {}
        self.at_work = asyncio.Event()  # set while `flush_forever` has something to do

    async def open(
        self, owner: RunRecord, workspace: Workspace, phase: str = "agent", *, rules: RunRules | None = None
    ) -> str:
        """Create and serve a Run's listeners; idempotent. Return "" or why that is not possible.

        `rules` replace those of the phase.
        """
        if not network.has_managed_network(workspace) or owner.run_id in self._open or owner.run_id in self._opening:
            return ""
        self._opening.add(owner.run_id)
        try:
            upstream = upstream_of(workspace)
            listeners = await self.daemon.driver(owner.driver).listeners(owner)
            if listeners is None:
                listeners = await self.daemon.thread(self._opener.listen, owner.pid, owner.start_time)
        except (NoListeners, DriverError) as error:
            logger.warning("%s has no way out: %s", workspace.key, error)
            return str(error)
        finally:
            self._opening.discard(owner.run_id)
        has_box = rules is None and workspace.held
        if rules is None:
            reaches = network.reaches_handrail(workspace)
            rules = RunRules(self.daemon, workspace.pk, workspace.key, phase, reaches_handrail=reaches)
        proxy = self._proxy_for(owner, workspace, rules, upstream)
        here = HostPorts(self.daemon, self._opener, owner) if has_box else None
        box = BoxPorts(self.daemon, self._opener, owner, workspace, reserved=here) if here else None
        self._open[owner.run_id] = _Open(rules, proxy, box, here)
        if box is not None:
            self.at_work.set()
        await proxy.serve(*listeners)
        if here is not None:
            await here.set(workspace.host_ports)
        return ""

    def _proxy_for(self, owner: RunRecord, workspace: Workspace, rules: RunRules, upstream: Upstream) -> Proxy:
        hosts = settings.HANDRAIL_EGRESS_HOSTS
        return Proxy(
            rules,
            resolve=with_hosts_file(Path(hosts)) if hosts else resolve_by_system,
            networks=settings.HANDRAIL_EGRESS_NETWORKS,
            web=self.web.address if rules.reaches_handrail else None,
            workspace=str(workspace.pk),
            passes=self.passes(owner.run_id),
            back=partial(connect_back, self.daemon, self._opener, owner),
            own_names=own_names(workspace),
            upstream=upstream,
            leashes=RunLeashes(self.daemon, workspace.pk, owner.run_id, upstream) if rules.is_leashed else None,
        )

    def is_open(self, run_id) -> bool:
        """Return whether the listeners of a Run are served."""
        return str(run_id) in self._open

    def passes(self, run_id) -> Passes:
        """Return the passes of a Run, which a new listener takes over, also after a restart of the runner."""
        if str(run_id) not in self._passes:
            self._passes[str(run_id)] = Passes(settings.HANDRAIL_HOME / "passes" / f"{run_id}.json")
        return self._passes[str(run_id)]

    async def close(self, run_id):
        """End every connection of the Run and save its counts."""
        await self.previews.close(run_id)
        if (opened := self._open.pop(str(run_id), None)) is not None:
            for ports in filter(None, (opened.ports, opened.host_ports)):
                await ports.close()
            await opened.proxy.close()
            await opened.rules.flush()

    async def open_for_run(self, run: Run, owner: RunRecord, workspace: Workspace):
        """Open the agent phase and save the reason of a failure in `Run.network`, for the page."""
        why = await self.open(owner, workspace)
        if why != run.network:
            run.network = why[:300]
            await self.daemon.thread(Run.objects.filter(pk=run.pk).update, network=run.network)

    async def tend(self, run: Run, owner: RunRecord):
        """Reopen a live Run's missing listeners and extend its tokens. Called every few seconds."""
        await self.open_for_run(run, owner, run.workspace)
        opened = self._open.get(str(run.pk))
        if opened and opened.host_ports is not None:
            await opened.host_ports.set(run.workspace.host_ports)
        if opened and time.monotonic() - opened.extended > TOKEN_EXTEND_INTERVAL:
            opened.extended = time.monotonic()
            await self.daemon.thread(run_tokens.extend, run.workspace_id)

    def forget_blocks(self):
        """Look each host up again at its next attempt: one may just have been allowed."""
        for opened in self._open.values():
            opened.rules.blocked.clear()

    async def set_host_ports(self, run_id, ports: list[int]):
        """Let the box of a Run reach these ports of this host; nothing if it has no box, or is not up."""
        opened = self._open.get(str(run_id))
        if opened is not None and opened.host_ports is not None:
            await opened.host_ports.set(ports)

    def box_ports(self, run_id) -> BoxPorts | None:
        """Return the forwarded ports of a Run; None if it has no box, or is not up."""
        opened = self._open.get(str(run_id))
        return opened.ports if opened is not None else None

    async def prune(self, alive: set[str]):
        """Close the listeners of Runs that have ended meanwhile."""
        doubtful = [run_id for run_id, one in self._open.items() if one.rules.phase == "agent" and run_id not in alive]
        for run_id in await self.daemon.thread(_over, doubtful) if doubtful else []:
            await self.close(run_id)
            self.passes(run_id).close()
            del self._passes[run_id]

    async def flush(self, workspace_id):
        """Save what programs of a workspace have tried to reach so far."""
        for opened in list(self._open.values()):
            if opened.rules.workspace_id == workspace_id:
                await opened.rules.flush()

    async def flush_forever(self):
        while True:
            if not any(opened.rules.is_at_work or opened.ports for opened in self._open.values()):
                self.at_work.clear()
                await self.at_work.wait()
            await asyncio.sleep(FLUSH_INTERVAL)
            for opened in list(self._open.values()):
                try:
                    await opened.rules.flush()
                    await opened.rules.close_revoked()
                except Exception:
                    logger.exception("what %s tried to reach could not be written down", opened.rules.key)
                try:
                    if opened.ports is not None:
                        await opened.ports.update_forwards()
                except Exception:
                    logger.exception("the ports of the box of %s could not be forwarded", opened.rules.key)

    async def shut(self):
        """Close all listeners when the runner stops. Workspaces stay up; the next runner opens them again."""
        await self.previews.shut()
        for run_id in list(self._open):
            await self.close(run_id)
        await self.daemon.thread(self._opener.close)


def _over(run_ids) -> list[str]:
    return [str(pk) for pk in Run.objects.filter(pk__in=run_ids, ended_at__isnull=False).values_list("pk", flat=True)]
