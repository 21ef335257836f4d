"""Probe which drivers work on this host and what they offer, for pages, doctor and the API."""

import asyncio
import contextlib

from workspaces.drivers.capabilities import TABLE
from workspaces.models import Runner
from workspaces.provisioning import capacity

PROBE_INTERVAL_S = 60.0


class DriverProbes:
    """What the last probe of each driver found."""

    def __init__(self, daemon):
        self._daemon = daemon
        self._marks: list[str] | None = None  # as the last probe found the host
        self.found: dict[str, dict] = {}  # by driver, as in `Runner.capabilities`
        self.available: set[str] = set()  # drivers
        self.due = asyncio.Event()  # set when a call of a driver failed in a way that a probe would tell

    async def save(self):
        """Probe every driver and save the findings in the runner's row."""
        found = {}
        self._marks = await asyncio.to_thread(self._marks_of_host)
        drivers = [self._daemon.driver(name) for name in TABLE]
        probes = await asyncio.gather(*(driver.probe() for driver in drivers))
        for name, driver, probe in zip(TABLE, drivers, probes, strict=True):
            found[name] = {
                "available": probe.available,
                "isolation": probe.isolation or driver.capabilities.isolation,
                "reason": probe.reason,
                "what_to_do": probe.what_to_do,
                "notes": list(probe.notes),
                "limits": sorted(probe.limits),
                "envelope": dict(probe.envelope),
                "classes": {name: dict(facts) for name, facts in probe.classes.items()},
            }
        row = Runner.objects.filter(pk=self._daemon.row.pk)
        await self._daemon.thread(row.update, capabilities=found, room=capacity.room_here())
        self.found = found
        self.available = {name for name, probe in found.items() if probe["available"]}

    async def until_due(self):
        """Wait for PROBE_INTERVAL_S, or until a probe is due."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(PROBE_INTERVAL_S):
                await self.due.wait()
        self.due.clear()

    def check_marks(self):
        """Let a probe be due if a driver's mark of the host has changed; called in a thread, every two seconds."""
        if self._marks is not None and self._marks_of_host() != self._marks:
            self._daemon.in_loop(self.due.set)

    def _marks_of_host(self) -> list[str]:
        return [self._daemon.driver(name).mark_of_host() for name in TABLE]
