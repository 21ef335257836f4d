"""One effect being carried out: what a kind gets to work with."""

import threading
import time
from contextlib import asynccontextmanager, nullcontext
from functools import partial

from asgiref.sync import sync_to_async
from django.db import close_old_connections, transaction

from dashboard.failpoints import failpoint
from workspaces import effects, lifecycle
from workspaces.drivers.base import Owner
from workspaces.models import Effect, Phase, Run, Snapshot, Workspace
from workspaces.runner import files, live, programs, snapshots
from workspaces.runner.specs import spec_of

NOTED_EVERY = 0.25  # seconds between two notes of how far long work is


class Kind:
    """What one kind of effect does. `perform` and `recover` return the outcome {"ok": bool, "reason": words, …};
    {"uncertain": True, "reason": …} says that nobody can know."""

    async def perform(self, job: "Job") -> dict:
        raise NotImplementedError

    async def recover(self, job: "Job") -> dict:
        """Go on after the runner died under it. By default it is done again, which must be harmless for the kind."""
        return await self.perform(job)

    def finish(self, job: "Job", outcome: dict):
        """Rows and events that belong to the end; runs in the transaction that settles the effect."""


class Job:
    def __init__(self, daemon, effect: Effect):
        self.daemon = daemon
        self.effect = effect
        self.args: dict = effect.args
        self.by = effects.actor_of(effect)
        self.workspace: Workspace = effect.workspace
        self._live = None  # the files of the workspace, while something is done to them
        self.cancel = threading.Event()  # set once somebody asked it to stop; for kinds that can

    async def thread(self, function, *args, **kwargs):
        """Run what blocks (the database, the store) off the loop."""
        return await self.daemon.thread(function, *args, **kwargs)

    async def started(self):
        """Write down, durably and in both places, that from here on it may have happened. Raises effects.Lost."""
        if self.effect.phase == Phase.STARTED:
            return
        failpoint("K6")
        await self.thread(self._started)

    def _started(self):
        with transaction.atomic():
            effects.start(self.effect)
            self.daemon.ledger.write(self.effect.pk, self.effect.epoch, "started")

    async def progress(self, **what):
        await self.thread(effects.note, self.effect, self.effect.progress | what)

    def watch(self, **what) -> dict:
        """Options for long work of the store: how far it is goes to the effect, and whoever asked can stop it.

        Called from the thread that does the work; a few times a second is enough for a page.
        """
        last = time.monotonic()  # quick work is not worth a note

        def report(progress):
            nonlocal last
            if time.monotonic() - last > NOTED_EVERY:
                last = time.monotonic()
                seen = {"done": progress.entries, "total": progress.total_entries, "bytes": progress.bytes}
                effects.note(self.effect, self.effect.progress | what | seen)

        return {"progress": report, "cancel": self.cancel}

    async def refresh(self) -> Workspace:
        """The workspace as it is in the database now."""
        related = Workspace.objects.select_related("team", "environment", "runner", "head", "baseline")
        self.workspace = await self.thread(related.get, pk=self.effect.workspace_id)
        return self.workspace

    @property
    def driver(self):
        return self.daemon.driver(self.workspace.environment.driver)

    async def open_run(self) -> Run | None:
        return await self.thread(snapshots.open_run, self.workspace)

    async def owner(self) -> Owner | None:
        """The driver's record of the open run, or None when the workspace is not up."""
        run = await self.open_run()
        return await self.daemon.owner_of(self.driver, run.pk) if run else None

    def lock(self):
        """Held while the tree is moved as a whole, and for each live write, so that neither falls into the other."""
        return self.daemon.tree_lock(self.workspace.pk)

    async def seen(self):
        """The files of the workspace as they can be looked at now; see live.py."""
        return await live.to_look_at(self.daemon, self.workspace)

    @asynccontextmanager
    async def live(self, read: bool = False):
        """The files of the workspace, to snapshot, compare or put back; what is opened within is the same once more.

        `read`: the newest snapshot will do for what is at rest.
        """
        if self._live is not None:
            yield self._live
            return
        opened = nullcontext(await self.seen()) if read else live.to_work_on(self, partial(spec_of, self.workspace))
        async with opened as self._live:
            try:
                yield self._live
            finally:
                self._live = None

    async def recover_tree(self):
        """Finish or take back a restore that was cut off; before anything reads the files or starts."""
        async with self.live() as tree:
            await self.thread(tree.recover, snapshots.journal_of(self.workspace))

    async def read_file(self, path: str, limit: int = 64 * 1024 * 1024) -> bytes:
        """A live file of /workspace. Problem for what is not one."""
        return await self.thread(files.read, await self.seen(), files.inside(path), limit)

    async def write_file(self, path: str, data: bytes, mode: int | None = None) -> bool:
        """Put a live file there as a whole or not at all; True when it is new."""
        async with self.lock():
            path = files.inside(path)
            return await self.thread(files.write, await self.seen(), path, data, mode=mode, owner=self.workspace.uid)

    async def snapshot(self, kind: str, label: str = "", **how) -> Snapshot:
        """Take a snapshot inside this effect; `how` as for snapshots.take. StoreError when it cannot be kept.

        Only what a person asked for by itself can be cancelled: `how` then has the job's `cancel`.
        """
        how = {"progress": self.watch()["progress"]} | how
        async with self.live() as tree:
            return await self.thread(snapshots.take, self.workspace, tree, kind=kind, label=label, by=self.by, **how)

    async def run_program(self, argv, *, cwd="/workspace", env=None, timeout_s=3600, phase="agent") -> dict:
        """Run a program in the workspace under a host process keyed by this effect, until it ends.

        → {"ok": True, exit_status, signal, output_bytes, truncated, reason, words, started_at, ended_at, tail}, or
        {"ok": False, "reason"[, "uncertain": True]} when it did not start, or its host was lost. `started()` is called
        here, just before the program may begin. It gets the secrets of its phase; with phase=None it gets none.
        """
        return await programs.run(self, argv, cwd=cwd, env=env or {}, timeout_s=timeout_s, phase=phase)

    async def said(self, ended: dict, size: int = 2000) -> str:
        """The last words of this effect's program, as text."""
        tail = await self.thread(programs.tail, programs.folder(self), ended["output_bytes"], size)
        return tail.decode("utf-8", "replace").strip()

    async def find_program(self) -> dict | None:
        """After a crash: how this effect's program ended (waits for one that still runs); None: it never began."""
        return await programs.find(self)

    async def record(self, verb: str, data=None, subject=None):
        await self.thread(lifecycle.record, self.workspace, self.by, verb, data, subject)


def in_threads(executor):
    """`await thread(function, …)`: run it in this executor, with a database connection that is fit to be used."""

    async def thread(function, *args, **kwargs):
        def call():
            close_old_connections()
            try:
                return function(*args, **kwargs)
            finally:
                close_old_connections()

        return await sync_to_async(call, thread_sensitive=False, executor=executor)()

    return thread
