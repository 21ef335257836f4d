"""The way out of the workspaces of this host: one proxy for the runner, with listeners for the programs of each Run.

`open` is called when a Run is up and again when it is adopted, `close` when it ends; `tend` mends what is missing. What
programs try is counted here and written down every second; what is let through is written down before its first byte.
"""

import asyncio
import logging
import time
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from django.conf import settings

from dashboard import clock
from workspaces import network
from workspaces.drivers.base import DriverError, Owner
from workspaces.egress.addresses import ask_system, with_hosts_file
from workspaces.egress.carry import Verdict
from workspaces.egress.listeners import NoListeners, Opener
from workspaces.egress.proxy import Proxy
from workspaces.models import Run, Workspace

logger = logging.getLogger("handrail.egress")
FLUSH_S = 1.0
KEYS_AT_MOST = 1000  # different verdicts of one Run between two flushes; what is beyond is counted together
EXTEND_S = 3600.0
HELD_S = 0.2  # so long may a host that was just allowed still be held back
EVERYWHERE = {"0.0.0.0", "::", ""}


def web_address() -> tuple[str, int]:
    host = settings.HANDRAIL_HOST
    return ("127.0.0.1" if host in EVERYWHERE else host, settings.HANDRAIL_PORT)


@dataclass
class Tally:
    """What was counted for one verdict and is not written down yet."""

    verdict: Verdict
    at: datetime
    times: int = 0


@dataclass
class RunSite:
    """One Run as the proxy knows it (egress.proxy.Site)."""

    daemon: object
    workspace_id: object
    key: str
    phase: str
    tallies: dict = field(default_factory=dict)
    held: dict = field(default_factory=dict)  # (host, port): (until when this answer is good enough, why not)
    lasting: dict = field(default_factory=dict)  # task of an open connection: the (host, port) that it goes to

    async def judge(self, host: str, port: int) -> str:
        """From the database each time, but for a host that is tried again and again: it costs a few looks a second."""
        until, why = self.held.get((host, port), (0.0, ""))
        if time.monotonic() < until:
            return why
        if why := await self.daemon.thread(network.judge, self.workspace_id, self.phase, host, port):
            if len(self.held) >= KEYS_AT_MOST:
                self.held.clear()
            self.held[host, port] = (time.monotonic() + HELD_S, why)
        return why

    async def admit(self, verdict: Verdict) -> str:
        why, lasts = await self.daemon.thread(self._admit, verdict)
        if not why and lasts:
            self.lasting[asyncio.current_task()] = (verdict.host, verdict.port)
        return why

    def _admit(self, verdict: Verdict) -> tuple[str, bool]:
        why, lasts = network.use(self.workspace_id, self.phase, verdict.host, verdict.port)
        if not why:
            let_through = Verdict(verdict.host, verdict.port, verdict.method, allowed=True)
            network.count(self.workspace_id, self.phase, let_through, 1, clock.now())
        return why, lasts

    async def end_what_is_taken_back(self):
        """Connections that are open hold no longer than what allowed them; one that was let through once goes on."""
        if targets := set(self.lasting.values()):
            gone = await self.daemon.thread(network.no_longer, self.workspace_id, self.phase, targets)
            for task in [task for task, target in self.lasting.items() if target in gone]:
                task.cancel()

    def refuse(self, verdict: Verdict):
        self._tally(Verdict(verdict.host, verdict.port, verdict.method, why=verdict.why), 1)

    def over(self, verdict: Verdict):
        self.lasting.pop(asyncio.current_task(), None)
        self._tally(verdict, 0)

    def _tally(self, verdict: Verdict, times: int):
        key = (verdict.host, verdict.port, verdict.method, verdict.allowed, verdict.why)
        if key not in self.tallies and len(self.tallies) >= KEYS_AT_MOST:
            key = (network.OTHERS, 0, "", verdict.allowed, verdict.why)
        if key not in self.tallies:
            blank = Verdict(key[0], key[1], key[2], allowed=key[3], why=key[4])
            self.tallies[key] = Tally(blank, datetime.now().astimezone())
        known = self.tallies[key]
        known.times += times
        known.verdict.sent += verdict.sent
        known.verdict.received += verdict.received
        known.at = datetime.now().astimezone()

    async def flush(self):
        tallies, self.tallies = self.tallies, {}
        if tallies:
            await self.daemon.thread(self._write, list(tallies.values()))

    def _write(self, tallies):
        for tally in tallies:
            network.count(self.workspace_id, self.phase, tally.verdict, tally.times, tally.at)

    def way_out(self, host: str, port: int) -> str:
        return (
            f"A person can allow it on the Network page of {self.key}; to ask for it: "
            f"POST {network.URL}/api/v1/workspaces/{self.key}/network/allow "
            f'{{"host": "{host}", "port": {port}, "phase": "{self.phase}"}}'
        )


@dataclass
class _Open:
    site: RunSite
    proxy: Proxy
    extended: float = field(default_factory=time.monotonic)


class Network:
    def __init__(self, daemon):
        self.daemon = daemon
        self._opener = Opener()
        self._open: dict[str, _Open] = {}
        self._opening: set[str] = set()

    async def open(self, owner: Owner, workspace: Workspace, phase: str = "agent") -> str:
        """Make the listeners and serve them; "" or why that is not possible, in words. Twice is once."""
        if not network.is_led(workspace) or owner.run_id in self._open or owner.run_id in self._opening:
            return ""
        self._opening.add(owner.run_id)
        try:
            listeners = await self.daemon.driver(owner.driver).listeners(owner)
            if listeners is None:
                listeners = await self.daemon.thread(self._opener.listen, owner.pid, owner.start_time)
        except (NoListeners, DriverError) as error:
            logger.warning("%s has no way out: %s", workspace.key, error)
            return str(error)
        finally:
            self._opening.discard(owner.run_id)
        site = RunSite(self.daemon, workspace.pk, workspace.key, phase)
        hosts = settings.HANDRAIL_EGRESS_HOSTS
        proxy = Proxy(
            site,
            resolve=with_hosts_file(Path(hosts)) if hosts else ask_system,
            networks=settings.HANDRAIL_EGRESS_NETWORKS,
            web=web_address(),
            workspace=str(workspace.pk),
        )
        self._open[owner.run_id] = _Open(site, proxy)
        await proxy.serve(*listeners)
        return ""

    async def close(self, run_id):
        """End every connection of the Run, and write down what was counted."""
        if (opened := self._open.pop(str(run_id), None)) is not None:
            await opened.proxy.close()
            await opened.site.flush()

    async def open_for_run(self, run: Run, owner: Owner, workspace: Workspace):
        """`open` for the agent phase; what is missing stands in the Run's row, for the page."""
        why = await self.open(owner, workspace)
        if why != run.network:
            run.network = why[:300]
            await self.daemon.thread(Run.objects.filter(pk=run.pk).update, network=run.network)

    async def tend(self, run: Run, owner: Owner):
        """For each Run that is alive, every few seconds: its listeners are there, and its token goes on."""
        await self.open_for_run(run, owner, run.workspace)
        opened = self._open.get(str(run.pk))
        if opened and time.monotonic() - opened.extended > EXTEND_S:
            opened.extended = time.monotonic()
            await self.daemon.thread(network.extend_run_tokens, run.workspace_id)

    async def prune(self, alive: set[str]):
        """Close what a Run that ended meanwhile left open."""
        doubtful = [run_id for run_id, one in self._open.items() if one.site.phase == "agent" and run_id not in alive]
        for run_id in await self.daemon.thread(_over, doubtful) if doubtful else []:
            await self.close(run_id)

    async def flush_forever(self):
        while True:
            await asyncio.sleep(FLUSH_S)
            for opened in list(self._open.values()):
                try:
                    await opened.site.flush()
                    await opened.site.end_what_is_taken_back()
                except Exception:
                    logger.exception("what %s tried to reach could not be written down", opened.site.key)

    async def shut(self):
        """At the runner's end: workspaces stay up, and the next runner makes their listeners again."""
        for run_id in list(self._open):
            await self.close(run_id)
        await self.daemon.thread(self._opener.close)


def _over(run_ids) -> list[str]:
    return [str(pk) for pk in Run.objects.filter(pk__in=run_ids, ended_at__isnull=False).values_list("pk", flat=True)]
