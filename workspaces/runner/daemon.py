"""The runner: one asyncio daemon for each host. Only it uses drivers, accesses workspaces' files and writes the store.

It claims and carries out operations, watches running sandboxes, serves live files over its socket and sends a
heartbeat. Everything it needs after a kill -9 is in the database, its ledger, the drivers' records and the programs'
folders; its memory can be lost.
"""

import asyncio
import logging
import os
import time
from collections import defaultdict
from functools import partial

from aiohttp import web
from django.conf import settings
from django.db import DatabaseError, connection
from django.db.models import Q

from dashboard.database import clock
from dashboard.database.outages import patient
from dashboard.database.threads import DatabaseThreads, in_threads
from dashboard.files.locks import take_lock
from dashboard.logs import about
from dashboard.workers import hints
from dashboard.workers.wakes import listen
from workspaces import operations
from workspaces.drivers.base import DriverError, RunRecord, get_driver
from workspaces.host import identity, paths
from workspaces.lifecycle import lost_hosts
from workspaces.models import Operation, Phase, Runner
from workspaces.provisioning import isolation
from workspaces.provisioning.git.running import delete_keys
from workspaces.runner import reached, rootfs, server, watching, working
from workspaces.runner.code_host.door import Doors
from workspaces.runner.driver_probes import DriverProbes
from workspaces.runner.job import Job
from workspaces.runner.keeping import Keeping
from workspaces.runner.ledger import Ledger
from workspaces.runner.measure import disk_quota
from workspaces.runner.measure.disk_quota import Vitals
from workspaces.runner.network import Network
from workspaces.runner.reconcile import liveness, orphans, returned, started_anew
from workspaces.runner.reconcile.up_here import UpHere
from workspaces.runner.snapshot_folders import SnapshotFolders, remove_left
from workspaces.runner.sweeps import Sweep, run_due, sweeps_of
from workspaces.services.retention.layers import setup_layers
from workspaces.shim import pool

logger = logging.getLogger("handrail.runner")
# A database file serves one host, whose commits wake the runner; a server may have other hosts, whose commits do not.
HEARS_ALL = connection.vendor == "sqlite"
# Seconds between two polls for due operations without a wake. Where all are heard and none is open, the sweeps do it.
POLL_INTERVAL = 2.0 if HEARS_ALL else 0.5
# Seconds between two rounds of each loop.
PAUSES = {
    "beat": 5.0,
    "lead": min(5.0, settings.HANDRAIL_LEASE_SECONDS / 3),
    "watch": 2.0,
    "sweep": 5.0,
    "claim": 0.0,
    "measure": disk_quota.ROUND_S,
    "orphans": orphans.INTERVAL_S,
    "host": 0.0,
    "images": 3600.0,
    "receipts": 24 * 3600.0,
}
IDLE_BEAT_S = 10.0  # between two heartbeats in the database while no operation needs its lease extended
KEEP_RECEIPTS_DAYS = 365  # a database restored from an older backup than this may rerun settled operations
BACKGROUND = ("claim", "measure", "orphans", "host", "images", "receipts")  # started after crash recovery


class AlreadyRunning(Exception):
    """Another runner holds the lock of this HANDRAIL_HOME."""


class Daemon:
    def __init__(self):
        self.home = settings.HANDRAIL_HOME
        self.runtime = paths.runtime()
        self.threads = DatabaseThreads(16, "runner")
        self.thread_now = in_threads(self.threads)  # fails while the database is away
        self.thread = patient(self.thread_now)
        self.lead = identity.Lead()
        self.row: Runner | None = None
        self.doors = Doors()
        self.ledger: Ledger | None = None
        self.network = Network(self)
        self.snapshot_folders = SnapshotFolders(self)
        self.values: dict = {}  # operation id: the value to look for, which is stored nowhere
        self._drivers = {}
        self.probes = DriverProbes(self)
        self._locks = defaultdict(asyncio.Lock)
        self.store_lock = asyncio.Lock()  # held while a team's store is maintained
        self._jobs: dict = {}  # operation id: task
        self._warming: dict = {}  # driver: task
        self.vitals = Vitals(self)
        self.up = UpHere(self)
        self.keeping = Keeping(self)
        self.devices: dict = {}  # workspace id: the file system of a connected folder
        self._cancel_events: dict = {}  # operation id: the job's cancel event
        self._cancelled: set = set()  # operations whose program was cancelled
        self._woken = asyncio.Event()
        self._beaten = float("-inf")
        self._has_open = True  # operations that are due or in flight, anywhere
        self.watched = asyncio.Event()  # set once the Runs that an earlier runner started have been checked
        self._ready = False  # no heartbeat in the database before the drivers are probed and those Runs checked

    # Start and stop

    async def run(self, stopping: asyncio.Event):
        """Work until `stopping` is set. Running workspaces stay up; the next runner adopts them."""
        self._loop = asyncio.get_running_loop()
        lock = self._lock_home()
        delete_keys()
        self.ledger = Ledger(self.home / "runner" / "ledger.sqlite3")
        self._stopping = stopping
        await self.thread(self.lead.take)
        self.row = await self.thread(identity.register)
        await self.thread(watching.forget_earlier, self.row)
        await started_anew.take_over(self)
        stop_listening = listen(self.runtime / "nudge", self._wake)
        hints.listen_forever(hints.RUNNERS, operations.wake_runner_here)
        serving = await self._serve()
        background = [asyncio.create_task(self._forever(name)) for name in ("beat", "lead", "watch", "sweep")]
        background += [asyncio.create_task(self.network.flush_forever()), asyncio.create_task(reached.keep_new(self))]
        try:
            await self.probes.save()
            await self.thread(remove_left)
            await self.thread(pool.prepare)  # so that the first command need not wait for the fork server
            await self.watched.wait()
            await self._recover_in_flight()
            self._ready = True
            await self.thread(self._keep_lead)
            background += [asyncio.create_task(self._forever(name)) for name in BACKGROUND]
            background.append(asyncio.create_task(self.keeping.forever()))
            logger.info("runner of %s is ready", self.row.host)
            await stopping.wait()
        finally:
            tasks = [*background, *self._jobs.values(), *self._warming.values()]
            for task in tasks:
                task.cancel()
            self.up.end()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self.network.shut()
            await self.snapshot_folders.shut()
            await serving.cleanup()
            stop_listening()
            self.ledger.close()
            await self.thread_now(self.lead.leave)
            self.threads.shutdown(wait=False, cancel_futures=True)
            os.close(lock)

    def _wake(self):
        self.network.forget_blocks()
        self.up.forget()
        self._woken.set()

    def in_loop(self, function):
        """Call the function in the event loop, from a thread."""
        self._loop.call_soon_threadsafe(function)

    def _lock_home(self) -> int:
        try:
            return take_lock(self.home / "runner.lock", wait=5)  # a runner that was just killed may take a moment
        except BlockingIOError:
            raise AlreadyRunning(f"Another runner is using {self.home}.") from None

    async def _serve(self) -> web.AppRunner:
        path = self.runtime / "runner.sock"
        path.unlink(missing_ok=True)
        serving = web.AppRunner(server.application(self), access_log=None, shutdown_timeout=1)
        await serving.setup()
        await web.UnixSite(serving, str(path)).start()
        path.chmod(0o600)
        await reached.serve(self, serving)
        await self.network.web.start()
        return serving

    async def _receipts(self):
        await self.thread(self.ledger.forget_before, KEEP_RECEIPTS_DAYS)

    async def _images(self):
        """Remove layers and images that no workspace uses any more; a workspace that needs one makes it again."""
        longest, ages = await self.thread(setup_layers.ages)
        for driver in await self.drivers_here():
            if driver.capabilities.images:
                in_use = await self.thread(rootfs.in_use)
                try:
                    gone = await driver.collect(in_use, older_than_s=longest, ages=ages)
                except DriverError as error:  # most hosts have no container engine; the probe reports that
                    logger.debug("layers were not collected: %s", error)
                    continue
                for name in gone:
                    logger.info("removed %s, which no workspace is made from", name)

    async def _host(self):
        await self.probes.until_due()
        await self.probes.save()

    # What jobs need

    def driver(self, name: str):
        if name not in self._drivers:
            self._drivers[name] = get_driver(name, self.home, self.runtime, settings.HANDRAIL_DRIVERS.get(name))
        return self._drivers[name]

    def isolation_of(self, driver, environment) -> str:
        """Return the isolation that a driver offers an environment on this host, as its last probe found it."""
        found = self.probes.found.get(driver.name)
        if found is None:
            return driver.capabilities.usual_isolation
        return isolation.of_class(found, environment.runtime_class).get("isolation") or "none"

    def warm(self, driver, spec, *, is_new: bool):
        """Prepare fast later starts like this one in the background; one task at a time for each driver."""
        if driver.name not in self._warming:
            self._warming[driver.name] = asyncio.create_task(self._warm(driver, spec, is_new))

    async def _warm(self, driver, spec, is_new: bool):
        try:
            await driver.warm(spec, is_new=is_new)
        except (DriverError, OSError) as error:
            logger.warning("%s keeps nothing ready for later starts: %s", driver.name, error)
        finally:
            self._warming.pop(driver.name, None)

    async def drivers_here(self) -> list:
        """Return the drivers that may run something on this host: the available ones and any already used."""
        return [self.driver(name) for name in sorted(self.probes.available | set(self._drivers))]

    async def owner_of(self, driver, run_id) -> RunRecord | None:
        return next((owner for owner in await driver.records() if owner.run_id == str(run_id)), None)

    async def with_owners(self, runs) -> list[tuple]:
        """Return (driver, run, the driver's record or None) of each run, without those whose driver fails now."""
        found, records = [], {}
        for run in runs:
            driver = self.driver(run.workspace.environment.driver)
            if driver.name not in records:
                try:
                    records[driver.name] = {owner.run_id: owner for owner in await driver.records()}
                except DriverError as error:
                    logger.warning("%s cannot say what runs: %s", driver.name, error)
                    records[driver.name] = None
            if records[driver.name] is not None:
                found.append((driver, run, records[driver.name].get(str(run.pk))))
        return found

    def tree_lock(self, workspace_id) -> asyncio.Lock:
        return self._locks[workspace_id]

    # Operations

    async def _forever(self, name: str):
        """Run one of the loops. Log an error in a round and continue with the next."""
        pause = PAUSES[name]
        while True:
            try:
                await getattr(self, f"_{name}")()
            except asyncio.CancelledError:
                raise
            except identity.OtherInstallation as error:
                logger.error("this runner ends: %s", error)
                self._stopping.set()
                return
            except Exception:
                logger.exception("the runner's %s loop failed", name)
                await asyncio.sleep(1)
            # Loops with one pause run in one wake-up of the process.
            await asyncio.sleep(pause - self._loop.time() % pause if 0 < pause < 60 else pause)

    async def _claim(self):
        self._woken.clear()
        for claimed in await self.thread(self._claim_due):
            self._start_job(claimed, recovering=False)
        try:
            async with asyncio.timeout(POLL_INTERVAL if self._has_open or not HEARS_ALL else None):
                await self._woken.wait()
        except TimeoutError:
            pass

    def _claim_due(self) -> list[Operation]:
        """Claim due operations and cancel those with a cancellation request. Return the claimed ones."""
        self.lead.take()
        # It runs often, so it queries only for the phases that occur.
        phases = set(Operation.objects.open().values_list("phase", flat=True).distinct())
        self._has_open = bool(phases)
        if phases - {Phase.DUE}:
            self._cancel_requested()
        if Phase.CLAIMED in phases:
            self._requeue_unheard()
        due = operations.claimable(self.row) if Phase.DUE in phases else []
        claimed = []
        for operation in due:
            try:
                if not operations.is_placed_on(operation, self.row):
                    continue
                claimed.append(operations.claim(operation, self.row))
            except DatabaseError:
                logger.exception("operation %s could not be claimed; it stays due", operation.kind)
        return [operation for operation in claimed if operation is not None]

    def _requeue_unheard(self):
        """Requeue what the database has as claimed by this runner, which never heard so: it went away meanwhile."""
        mine = Operation.objects.filter(runner=self.row, phase=Phase.CLAIMED)
        for operation in mine.exclude(pk__in=list(self._jobs)):
            operations.requeue(operation)

    def expect_cancel(self, job: Job):
        """Let the job hear of a request to cancel its operation."""
        self._cancel_events[job.operation.pk] = job.cancel
        if job.operation.cancelled_at:
            job.cancel.set()

    def _start_job(self, operation: Operation, *, recovering: bool):
        task = asyncio.create_task(self._work(operation, recovering))
        self._jobs[operation.pk] = task
        self.up.forget()
        task.add_done_callback(lambda _: self._job_ended(operation.pk))

    def _job_ended(self, operation_id):
        self._jobs.pop(operation_id, None)
        self._cancel_events.pop(operation_id, None)
        self._cancelled.discard(operation_id)
        self.up.forget()
        self._woken.set()

    async def _work(self, operation: Operation, recovering: bool):
        with about(operation=operation.pk):
            await working.carry_out(self, operation, recovering)
            self.keeping.ended(operation)

    def _cancel_requested(self):
        """Cancel the jobs and programs of operations with a cancellation request."""
        mine = Operation.objects.in_flight().filter(runner=self.row)
        asked = mine.filter(Q(cancelled_at__isnull=False) | Q(command__cancelled_at__isnull=False))
        for pk, workspace_id in asked.exclude(pk__in=self._cancelled).values_list("pk", "workspace"):
            if pk in self._cancel_events:
                self._cancel_events[pk].set()
            folder = paths.program_of(workspace_id, pk)
            if workspace_id and (folder / "claim").exists():  # else no shim has started yet
                self._cancelled.add(pk)
                asyncio.run_coroutine_threadsafe(server.cancel_program(folder), self._loop)

    # After a crash, and while it runs

    async def _recover_in_flight(self):
        """Recover operations left in flight: requeue those not started, call `recover()` for the rest."""
        await self.thread(lost_hosts.end_left_behind, self.row)
        mine = Operation.objects.in_flight().filter(runner=self.row).exclude(lead__waits=True)
        under_way = await self.thread(lambda: list(mine.select_related("workspace")))
        for operation in under_way:
            known = await self.thread(self.ledger.get, operation.pk)
            if operation.phase == Phase.CLAIMED and (known is None or known[1] == "claimed"):
                await self.thread(operations.requeue, operation)
            else:
                self.recover([await self.thread(operations.take_over, operation)])

    def recover(self, taken: list[Operation]):
        """Find out in the background how each of these ends, which had begun before."""
        for operation in taken:
            self._start_job(operation, recovering=True)

    async def _beat(self):
        (self.runtime / "heartbeat").mkdir(exist_ok=True, mode=0o700)
        (self.runtime / "heartbeat" / "runner").touch()

    async def _lead(self):
        if self._ready:
            await self.thread_now(self._keep_lead)

    def _keep_lead(self):
        self.lead.take()
        if self._jobs:
            operations.extend(self.row)
        elif time.monotonic() - self._beaten < IDLE_BEAT_S - 1:
            return
        self._beaten = time.monotonic()
        Runner.objects.filter(pk=self.row.pk).update(heartbeat_at=clock.now(), pid=os.getpid())

    async def _watch(self):
        try:
            await liveness.watch(self)
        finally:
            self.watched.set()

    async def _sweep(self):
        polls = Sweep(partial(self.in_loop, self._woken.set), Operation.objects.open)
        await self.thread(run_due, [*sweeps_of(self.row), polls])

    async def _measure(self):
        await self.vitals.round()

    async def _orphans(self):
        await orphans.sweep(self)
        await returned.sweep(self)
