"""`Kind`, the base class of what an operation does, and `Job`, the context that a kind gets for one operation."""

import threading
import time
from contextlib import asynccontextmanager, nullcontext
from functools import partial

from django.db.models import UUIDField

from dashboard.database.errors import is_full
from dashboard.database.outages import patiently
from dashboard.database.prepared import Prepared, Slot
from dashboard.database.retries import retried
from dashboard.models import Team
from dashboard.workers.failpoints import failpoint
from workspaces import lifecycle, operations
from workspaces.drivers.base import DriverError, RunRecord
from workspaces.host.paths import inside
from workspaces.models import Operation, Phase, ReasonCode, Run, Snapshot, State, Workspace
from workspaces.runner import files, programs, snapshots, tree_access
from workspaces.runner.measure import ports
from workspaces.runner.refusals import Refused
from workspaces.runner.run_spec import spec_of

PROGRESS_INTERVAL_S = 0.25  # between two progress updates


_WORKSPACES = Prepared(
    lambda: Workspace.objects.select_related("team", "environment", "runner", "head", "baseline").filter(
        pk=Slot("pk", UUIDField())
    )
)


class Kind:
    """What one kind of operation does.

    `perform` and `recover` return the outcome {"ok": True, …} or raise; refusals.py turns an exception into the bad
    outcome.
    """

    stored = ""  # its name in `Operation.kind` and in the API, where that is older than the module's name
    when_cancelled = "Nothing was kept."
    when_store_fails = ""  # prefix of the store's message

    async def perform(self, job: "Job") -> dict:
        raise NotImplementedError

    async def recover(self, job: "Job") -> dict:
        """Continue after a runner crash. By default performs it again, which must be safe for the kind."""
        return await self.perform(job)

    def finish(self, job: "Job", outcome: dict):
        """Write the rows and events of the outcome. Runs in the transaction that settles the operation."""


class Job:
    """One operation in flight, with what its kind needs: workspace, driver, tree, progress and programs."""

    def __init__(self, daemon, operation: Operation):
        self.daemon = daemon
        self.operation = operation
        self.args: dict = operation.args
        self.by = operations.actor_of(operation)
        self.workspace: Workspace = operation.workspace
        self.setup_seconds: float | None = None  # duration of the setup script, once it has run
        self.brings_back = False  # it restores files that are gone from this host, into an empty place
        self._open_tree = None  # the tree that `open_tree` yields
        self.cancel = threading.Event()  # set when cancellation is requested; not every kind can be cancelled

    async def thread(self, function, *args, **kwargs):
        """Run a blocking function (database, store) off the event loop; once it has begun, wait for a full database."""
        if self.operation.phase != Phase.STARTED:
            return await self.daemon.thread(function, *args, **kwargs)
        return await patiently(lambda: self.daemon.thread(function, *args, **kwargs), passes=is_full)

    async def mark_started(self, begins=None):
        """Record durably, in the database and the ledger, that it may have happened from here on.

        `begins` writes the rows of the kind in the same commit. Raise operations.StaleEpoch if another epoch has the
        operation.
        """
        if self.operation.phase == Phase.STARTED:
            return
        failpoint("K6")
        try:
            await self.thread(self._mark_started, begins)
        except Exception:
            self.operation.phase = Phase.CLAIMED  # whatever was written: nothing that comes after this happens
            raise

    @retried
    def _mark_started(self, begins):
        """Record the start in the database and then in the ledger; `begins` is called in the same transaction."""
        try:
            with Team.objects.turn(self.operation.of_team):
                if begins:
                    begins()
                operations.start(self.operation)
                self.daemon.ledger.write(self.operation.pk, self.operation.epoch, "started")
        except operations.StaleEpoch:
            # An earlier try may have been committed by a database that went away before it said so.
            if not operations.has_started(self.operation):
                raise
            self.operation.phase = Phase.STARTED

    async def progress(self, **what):
        """Merge `what` into the operation's progress and save it."""
        await self.thread(operations.record_progress, self.operation, self.operation.progress | what)

    def watch(self, **what) -> dict:
        """Return {progress, cancel} options for long store work: progress is saved on the operation, with `what`.

        The callback is called from the thread that does the work, and saves at most every PROGRESS_INTERVAL_S seconds.
        """
        last = time.monotonic()  # work shorter than PROGRESS_INTERVAL_S saves no progress

        def report(progress):
            nonlocal last
            if time.monotonic() - last > PROGRESS_INTERVAL_S:
                last = time.monotonic()
                seen = {"done": progress.entries, "total": progress.total_entries, "bytes": progress.bytes}
                operations.record_progress(self.operation, self.operation.progress | what | seen)

        return {"progress": report, "cancel": self.cancel}

    async def refresh(self) -> Workspace:
        """Reload the workspace from the database."""
        self.workspace = await self.thread(self._read)
        return self.workspace

    async def refresh_with_run(self) -> tuple[Workspace, Run | None]:
        """Reload the workspace; return it with its open run."""
        self.workspace, run = await self.thread(lambda: (found := self._read(), snapshots.open_run(found)))
        return self.workspace, run

    def _read(self) -> Workspace:
        (found,) = _WORKSPACES.rows(pk=self.operation.workspace_id)
        return found

    @property
    def driver(self):
        return self.daemon.driver(self.workspace.environment.driver)

    async def open_run(self) -> Run | None:
        return await self.thread(snapshots.open_run, self.workspace)

    async def owner(self) -> RunRecord | None:
        """Return the driver's record of the open run, or None when the workspace is not up."""
        run = await self.open_run()
        return await self.daemon.owner_of(self.driver, run.pk) if run else None

    def lock(self):
        """Return the tree lock: held for work on the whole tree and for each live write, so they do not overlap."""
        return self.daemon.tree_lock(self.workspace.pk)

    async def readable_tree(self):
        """Return the workspace's tree as it can be read now; see tree_access.py."""
        return await tree_access.readable_tree(self.daemon, self.workspace)

    @asynccontextmanager
    async def open_tree(self, read: bool = False):
        """Yield the workspace's tree to snapshot, compare or restore; reentrant, yielding the same tree.

        `read`: the newest snapshot is enough for a guest at rest.
        """
        if self._open_tree is not None:
            yield self._open_tree
            return
        if read:
            opened = nullcontext(await self.readable_tree())
        else:
            opened = tree_access.open_tree(self, partial(spec_of, self.workspace))
        async with opened as self._open_tree:
            try:
                yield self._open_tree
            finally:
                self._open_tree = None

    async def require(self, *states: State) -> Workspace:
        """Reload the workspace. Raise Refused if it is in none of these states."""
        workspace = await self.refresh()
        if workspace.state not in states:
            raise self.wrong_state()
        return workspace

    def wrong_state(self) -> Refused:
        """Return the Refused for an operation that the workspace's state does not allow."""
        workspace = self.workspace
        return Refused(f"{workspace.key} {lifecycle.STATE_WORDS[workspace.state]}.", ReasonCode.STATE)

    async def recover_tree(self):
        """Complete or undo an interrupted restore; call before anything reads the files or starts."""
        async with self.open_tree() as tree:
            await self.thread(tree.recover, snapshots.journal_of(self.workspace))

    async def read_file(self, path: str, limit: int = 64 * 1024 * 1024) -> bytes:
        """Return the content of a live file of /workspace. Raise Problem if it is not a regular file."""
        return await self.thread(files.read, await self.readable_tree(), inside(path), limit)

    async def write_file(self, path: str, data: bytes, mode: int | None = None) -> bool:
        """Write a live file of /workspace atomically. Return True if it is new."""
        async with self.lock():
            path = inside(path)
            return await self.thread(
                files.write, await self.readable_tree(), path, data, mode=mode, owner=self.workspace.uid
            )

    async def snapshot(self, kind: str, label: str = "", **how) -> Snapshot:
        """Take a snapshot inside this operation; `how` as for `snapshots.take`. Raise StoreError if it fails.

        It can be cancelled only if `how` has the job's `cancel`, for a snapshot that a person requested by itself.
        """
        how = {"progress": self.watch()["progress"], "operation": self.operation} | how
        if "ports" not in how:
            how["ports"] = await self._ports_now()
        async with self.open_tree() as tree:
            return await self.thread(snapshots.take, self.workspace, tree, kind=kind, label=label, by=self.by, **how)

    async def _ports_now(self) -> list[dict] | None:
        """Return the ports on which programs listen at this moment; None if they can't be read."""
        try:
            return await ports.of(self.driver, owner) if (owner := await self.owner()) else None
        except (DriverError, OSError):
            return None

    async def run_program(
        self,
        argv,
        *,
        cwd="/workspace",
        env=None,
        timeout_s=3600,
        phase="agent",
        begins=None,
        envelope=None,
        reaches=(),
        alive=None,
    ) -> dict:
        """Run a program in the workspace under a shim keyed by this operation, until it ends.

        Return {"ok": True, exit_status, signal, output_bytes, truncated, reason, words, started_at, ended_at, tail}, or
        {"ok": False, "reason", "reason_code"[, "uncertain": True]} if it did not start or its shim was lost.
        Calls `mark_started(begins)` just before the program may begin. The program gets the secrets of its phase, none
        with phase=None. With an `envelope` (as JSON) the kernel holds it to that, or it does not start; what was
        refused is `blocked` in the outcome. `reaches` are servers, as host:port, that this program alone may reach.
        `alive` as for `programs.run`.
        """
        how = {"timeout_s": timeout_s, "phase": phase, "begins": begins, "envelope": envelope, "reaches": reaches}
        how["alive"] = alive
        return await programs.run(self, argv, cwd=cwd, env=env or {}, **how)

    async def output_tail(self, ended: dict, size: int = 2000) -> str:
        """Return the last `size` bytes of this operation's program output, as text."""
        tail = await self.thread(programs.tail, programs.folder(self), ended["output_bytes"], size)
        return tail.decode("utf-8", "replace").strip()

    async def find_program(self, reaches=()) -> dict | None:
        """After a crash, return how this operation's program ended, waiting if it runs; None if it never started."""
        return await programs.find(self, reaches)

    async def record(self, verb: str, data=None, subject=None):
        await self.thread(lifecycle.record, self.workspace, self.by, verb, data, subject)
