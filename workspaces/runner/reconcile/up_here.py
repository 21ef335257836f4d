"""What is up on this host, as the database had it: read again when something may have changed it."""

import threading
import time

from django.db import connection

from workspaces.models import Run, State, StateCode, Workspace

# Only this runner changes the rows of its host; with a server, other hosts mark them too while this one is silent.
KEPT_S = 30.0 if connection.vendor == "sqlite" else 0.0


class UpHere:
    """The open Runs of this host with their drivers' records, and its connected folders."""

    def __init__(self, daemon):
        self._daemon = daemon
        self._read_at = float("-inf")
        self._changed, self._ended = threading.Event(), threading.Event()
        self._owned: list[tuple] | None = None
        self.runs: list[Run] = []
        self.folders: list[Workspace] = []

    def forget(self):
        """Read again at the next look: an operation, a request or a wake-up may have changed a row."""
        self._changed.set()

    def end(self):
        """Let a thread that rests end its wait."""
        self._changed.set()
        self._ended.set()

    def rest(self, seconds: float) -> bool:
        """Wait in a thread; return False if the rows have to be read again.

        A change does not cut it short: the work that made it would wait for the reading.
        """
        self._ended.wait(seconds)
        return not self._changed.is_set()

    def read(self):
        """Query the rows, unless they are as they were read."""
        if time.monotonic() - self._read_at < KEPT_S and not self._changed.is_set():
            return
        self._changed.clear()
        self._read_at = time.monotonic()
        row = self._daemon.row
        runs = Run.objects.filter(ended_at=None, runner=row, ready_at__isnull=False)
        self.runs = list(runs.select_related("workspace__environment", "workspace__team"))
        self.folders = list(
            Workspace.objects.kept()
            .connected_folders()
            .filter(runner=row, state=State.READY)
            .select_related("team", "head")
        )
        self._owned = None

    def is_quiet(self) -> bool:
        """Return whether all that is up here is seen to live, with its network, and wants nothing else."""
        if not self.runs:
            return True
        return self._owned is not None and all(self._is_at_rest(*each) for each in self._owned)

    def _is_at_rest(self, driver, run, owner) -> bool:
        workspace = run.workspace
        if workspace.environment.services or workspace.held or workspace.reason_code in StateCode.out_of_reach():
            return False
        return self._daemon.network.is_open(run.pk) and driver.lives(owner)

    async def owned(self) -> list[tuple]:
        """Return (driver, run, the driver's record) of each Run, without those whose driver fails now."""
        if self._owned is None:
            runs = self.runs
            found = await self._daemon.with_owners(runs)
            if len(found) < len(runs) or any(owner is None for _, _, owner in found):
                return found  # asked again at the next look
            self._owned = found if runs is self.runs else None
            return found
        return self._owned
