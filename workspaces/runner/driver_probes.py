"""Probe which drivers work on this host and what they offer, for pages, doctor and the API."""

import asyncio
import contextlib
import time

from workspaces.drivers.base import BUILT_IN
from workspaces.models import Runner

PROBE_INTERVAL_S = 60.0
MARKS_INTERVAL_S = 2.0  # between two checks of the drivers' host marks, a change of which triggers a probe


class DriverProbes:
    """What the last probe of each driver found."""

    def __init__(self, daemon):
        self._daemon = daemon
        self._marks: list[str] = []
        self.isolation: dict[str, str] = {}  # by driver
        self.due = asyncio.Event()  # set when a call of a driver failed in a way that a probe would tell

    async def save(self):
        """Probe every driver and save the findings in the runner's row."""
        found = {}
        self._marks = await asyncio.to_thread(self._marks_of_host)
        for name in BUILT_IN:
            driver = self._daemon.driver(name)
            probe = await driver.probe()
            found[name] = {
                "available": probe.available,
                "isolation": probe.isolation or driver.capabilities.isolation,
                "reason": probe.reason,
                "what_to_do": probe.what_to_do,
                "notes": list(probe.notes),
                "limits": sorted(probe.limits),
                "envelope": dict(probe.envelope),
            }
        row = Runner.objects.filter(pk=self._daemon.row.pk)
        await self._daemon.thread(row.update, capabilities=found)
        self.isolation = {name: probe["isolation"] for name, probe in found.items()}

    async def until_due(self):
        """Wait for PROBE_INTERVAL_S, or until a driver's mark of the host changes or a probe is due."""
        until = time.monotonic() + PROBE_INTERVAL_S
        while time.monotonic() < until and await asyncio.to_thread(self._marks_of_host) == self._marks:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(MARKS_INTERVAL_S):
                    await self.due.wait()
                break
        self.due.clear()

    def _marks_of_host(self) -> list[str]:
        return [self._daemon.driver(name).mark_of_host() for name in BUILT_IN]
