"""The runner: one asyncio daemon for each host. It alone touches drivers, workspaces' files and the store's write side.

It claims effects and carries them out, watches what runs, serves live reads over its socket and beats its heart.
Everything that it must know after a kill -9 is in the database, its ledger, the drivers' records and the programs'
folders; what it holds in memory can be lost.
"""

import asyncio
import fcntl
import logging
import os
import socket
import time
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from aiohttp import web
from django.conf import settings
from django.db import transaction
from django.utils.module_loading import import_string

from dashboard import clock, redaction
from dashboard.logs import about
from dashboard.problems import Problem
from workspaces import effects, idle, lifecycle, periodic, places
from workspaces.drivers.base import BUILT_IN, DriverError, Owner, boot_id, get_driver
from workspaces.hosts import spawn
from workspaces.models import Command, Effect, Phase, Runner
from workspaces.runner import orphans, roots, server, vitals, watching
from workspaces.runner.job import Job, in_threads
from workspaces.runner.ledger import Ledger
from workspaces.runner.network import Network
from workspaces.runner.vitals import Vitals
from workspaces.runner.watching import SYSTEM
from workspaces.store import StoreError

logger = logging.getLogger("handrail.runner")
LOOK = 0.5  # seconds between two looks for due effects when nobody nudges
# Seconds between two rounds of each loop.
PAUSES = {
    "beat": 2.0,
    "watch": 2.0,
    "sweep": 5.0,
    "claim": 0.0,
    "measure": vitals.ROUND,
    "orphans": orphans.EVERY,
    "host": 0.0,
    "images": 3600.0,
}
PROBE_S = 60.0
KEEP_LAYERS_S = 7 * 24 * 3600.0
BACKGROUND = ("claim", "measure", "orphans", "host", "images")  # once what was under way is taken up


class AlreadyRunning(Exception):
    """Another runner has this HANDRAIL_HOME."""


class Daemon:
    def __init__(self):
        self.home = settings.HANDRAIL_HOME
        self.runtime = places.runtime()
        self.threads = ThreadPoolExecutor(max_workers=16, thread_name_prefix="runner")
        self.thread = in_threads(self.threads)
        self.row: Runner | None = None
        self.ledger: Ledger | None = None
        self.network = Network(self)
        self._drivers = {}
        self._offers = {}  # driver: the isolation that the last probe found
        self._locks = defaultdict(asyncio.Lock)
        self._jobs: dict = {}  # effect id: task
        self._warming: dict = {}  # driver: task
        self.vitals = Vitals(self)
        self._stops: dict = {}  # effect id: what its job looks at to know that it shall stop
        self._cancelled: set = set()  # effects whose program was told to end
        self._nudged = asyncio.Event()

    # Start and stop

    async def run(self, stopping: asyncio.Event):
        """Work until `stopping` is set. What runs in workspaces stays up, for the next runner."""
        lock = self._lock_home()
        self.ledger = Ledger(self.home / "runner" / "ledger.sqlite3")
        self.row = await self.thread(self._register)
        nudges = self._open_nudges()
        serving = await self._serve()
        background = [asyncio.create_task(self._forever(name)) for name in ("beat", "watch", "sweep")]
        background.append(asyncio.create_task(self.network.flush_forever()))
        try:
            await self._probe()
            spawn.keep_spares(1)  # a command then starts in a host process that is up already
            await self._take_up()
            background += [asyncio.create_task(self._forever(name)) for name in BACKGROUND]
            logger.info("runner of %s is ready", self.row.host)
            await stopping.wait()
        finally:
            tasks = [*background, *self._jobs.values(), *self._warming.values()]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self.network.shut()
            await serving.cleanup()
            asyncio.get_running_loop().remove_reader(nudges)
            nudges.close()
            self.ledger.close()
            self.threads.shutdown(wait=False, cancel_futures=True)
            os.close(lock)

    def _lock_home(self) -> int:
        fd = os.open(self.home / "runner.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        deadline = time.monotonic() + 5  # a predecessor that was just killed may need a moment to be gone
        while True:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return fd
            except BlockingIOError:
                if time.monotonic() > deadline:
                    os.close(fd)
                    raise AlreadyRunning(f"Another runner works on {self.home}.") from None
                time.sleep(0.1)

    def _register(self) -> Runner:
        now = clock.now()
        values = {"boot_id": boot_id(), "pid": os.getpid(), "heartbeat_at": now, "version": "0.1.0"}
        return Runner.objects.update_or_create(host=settings.HANDRAIL_HOST_NAME, defaults=values)[0]

    def _open_nudges(self) -> socket.socket:
        path = self.runtime / "nudge"
        path.unlink(missing_ok=True)
        receiver = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        receiver.setblocking(False)
        receiver.bind(str(path))

        def heard():
            try:
                while receiver.recv(64):
                    pass
            except BlockingIOError:
                pass
            self._nudged.set()

        asyncio.get_running_loop().add_reader(receiver, heard)
        return receiver

    async def _serve(self) -> web.AppRunner:
        path = self.runtime / "runner.sock"
        path.unlink(missing_ok=True)
        serving = web.AppRunner(server.application(self), access_log=None, shutdown_timeout=1)
        await serving.setup()
        await web.UnixSite(serving, str(path)).start()
        path.chmod(0o600)
        return serving

    async def _probe(self):
        """What this host can do, for pages, doctor and the API."""
        found = {}
        for name in BUILT_IN:
            driver = self.driver(name)
            probe = await driver.probe()
            found[name] = {
                "available": probe.available,
                "isolation": probe.isolation or driver.capabilities.isolation,
                "reason": probe.reason,
                "what_to_do": probe.what_to_do,
                "notes": list(probe.notes),
                "limits": sorted(probe.limits),
            }
        await self.thread(Runner.objects.filter(pk=self.row.pk).update, capabilities=found)
        self._offers = {name: probe["isolation"] for name, probe in found.items()}

    async def _images(self):
        """Layers that no workspace is made from any more; the next one that needs such a layer makes it again."""
        for driver in await self.drivers_here():
            if driver.capabilities.images:
                in_use = await self.thread(roots.in_use)
                try:
                    gone = await driver.collect(in_use, older_than_s=KEEP_LAYERS_S)
                except DriverError as error:  # most hosts have no engine; the probe says so to whoever asks
                    logger.debug("layers were not looked at: %s", error)
                    continue
                for name in gone:
                    logger.info("removed %s, which no workspace is made from", name)

    async def _host(self):
        """An engine comes and goes while we run."""
        await asyncio.sleep(PROBE_S)
        await self._probe()

    # What jobs need

    def driver(self, name: str):
        if name not in self._drivers:
            self._drivers[name] = get_driver(name, self.home, self.runtime, settings.HANDRAIL_DRIVERS.get(name))
        return self._drivers[name]

    def isolation_of(self, driver) -> str:
        """What this driver holds apart on this host; an emulated machine is less than a real one."""
        return self._offers.get(driver.name, driver.capabilities.isolation)

    def warm(self, driver, spec):
        """Make later starts like this one quick, beside everything else; one at a time for each driver."""
        if driver.name not in self._warming:
            self._warming[driver.name] = asyncio.create_task(self._warm(driver, spec))

    async def _warm(self, driver, spec):
        try:
            await driver.warm(spec)
        except (DriverError, OSError) as error:
            logger.warning("%s has no template to start from: %s", driver.name, error)
        finally:
            self._warming.pop(driver.name, None)

    async def drivers_here(self) -> list:
        """Those that can have something on this host: the available ones, and any that has been used."""
        row = await self.thread(Runner.objects.get, pk=self.row.pk)
        names = {name for name, probe in row.capabilities.items() if probe.get("available")}
        return [self.driver(name) for name in sorted(names | set(self._drivers))]

    async def owner_of(self, driver, run_id) -> Owner | None:
        return next((owner for owner in await driver.owners() if owner.run_id == str(run_id)), None)

    async def with_owners(self, runs) -> list[tuple]:
        """(driver, run, the driver's record or None) of each; left out are those whose driver cannot say now."""
        found, records = [], {}
        for run in runs:
            driver = self.driver(run.workspace.environment.driver)
            if driver.name not in records:
                try:
                    records[driver.name] = {owner.run_id: owner for owner in await driver.owners()}
                except DriverError as error:
                    logger.warning("%s cannot say what runs: %s", driver.name, error)
                    records[driver.name] = None
            if records[driver.name] is not None:
                found.append((driver, run, records[driver.name].get(str(run.pk))))
        return found

    def tree_lock(self, workspace_id) -> asyncio.Lock:
        return self._locks[workspace_id]

    # Effects

    async def _forever(self, name: str):
        """Keep one of the loops going; what goes wrong in one round is logged, and the next one tries again."""
        pause = PAUSES[name]
        while True:
            try:
                await getattr(self, f"_{name}")()
            except asyncio.CancelledError:
                raise
            except Exception:
                logger.exception("the runner's %s loop stumbled", name)
                await asyncio.sleep(1)
            await asyncio.sleep(pause)

    async def _claim(self):
        self._nudged.clear()
        for due in await self.thread(self._look):
            claimed = await self.thread(effects.claim, due, self.row)
            if claimed:
                self._begin(claimed, recovering=False)
        try:
            await asyncio.wait_for(self._nudged.wait(), LOOK)
        except TimeoutError:
            pass

    def _look(self) -> list[Effect]:
        """What can be claimed; what was cancelled hears of it. Twice a second, so it asks no more than it must."""
        phases = set(Effect.objects.open().values_list("phase", flat=True).distinct())
        if phases - {Phase.DUE}:
            self._cancel_asked()
        return list(effects.claimable(self.row)[:50]) if Phase.DUE in phases else []

    def _begin(self, effect: Effect, *, recovering: bool):
        task = asyncio.create_task(self._work(effect, recovering))
        self._jobs[effect.pk] = task
        task.add_done_callback(lambda _: self._over(effect.pk))

    def _over(self, effect_id):
        self._jobs.pop(effect_id, None)
        self._stops.pop(effect_id, None)
        self._cancelled.discard(effect_id)
        self._nudged.set()

    async def _work(self, effect: Effect, recovering: bool):
        with about(effect=effect.pk):
            try:
                kind = import_string(effect.kind)
                job = Job(self, effect)
                self._stops[effect.pk] = job.cancel
                if effect.cancelled_at:
                    job.cancel.set()
                outcome = await self._carry_out(kind, job, recovering)
                await self.thread(self._settle, kind, job, outcome)
            except effects.Lost:
                logger.warning("effect %s belongs to a later epoch", effect.kind)
                await self.thread(_refused, effect)
            except Exception as error:
                # Nobody else would end it, and an open exclusive effect blocks its workspace.
                logger.exception("effect %s could not be settled", effect.kind)
                reason = f"The runner could not write down how it ended ({error!r:.200})."
                await self.thread(effects.declare_uncertain, effect, reason)

    async def _carry_out(self, kind, job: Job, recovering: bool) -> dict:
        effect = job.effect
        known = await self.thread(self.ledger.get, effect.pk)
        if not recovering:
            if known and known[1] != "claimed":
                reason = "This host has carried it out already; the database was put back to before that."
                return {"ok": False, "uncertain": True, "reason": reason}
            await self.thread(self.ledger.write, effect.pk, effect.epoch, "claimed")
        try:
            return await (kind.recover(job) if recovering else kind.perform(job))
        except (effects.Lost, asyncio.CancelledError):
            raise
        except Problem as problem:
            return {"ok": False, "reason": problem.detail}
        except (DriverError, StoreError) as error:
            return {"ok": False, "reason": str(error)}
        except OSError as error:
            logger.exception("effect %s", effect.kind)
            return {"ok": False, "reason": f"The system said: {error}."}
        except Exception as error:
            logger.exception("effect %s", effect.kind)
            unknown = effect.phase == Phase.STARTED
            return {"ok": False, "uncertain": unknown, "reason": f"Something broke in the runner ({error!r:.200})."}

    def _settle(self, kind, job: Job, outcome: dict):
        outcome = redaction.clean(outcome)
        with transaction.atomic():
            kind.finish(job, outcome)
            if outcome.get("uncertain"):
                effects.declare_uncertain(job.effect, outcome["reason"])
            else:
                effects.settle(job.effect, outcome)
        self.ledger.write(job.effect.pk, job.effect.epoch, "settled")

    def _cancel_asked(self):
        """Cancelled moves: tell their jobs. Cancelled commands whose program runs: tell its host."""
        moves = Effect.objects.in_flight().filter(runner=self.row, cancelled_at__isnull=False)
        for pk in moves.values_list("pk", flat=True):
            if pk in self._stops:
                self._stops[pk].set()
        asked = Command.objects.filter(cancelled_at__isnull=False, effect__phase=Phase.STARTED, effect__runner=self.row)
        for command in asked.exclude(effect__in=self._cancelled).select_related("effect"):
            folder = places.program_of(command.workspace_id, command.effect_id)
            if (folder / "claim").exists():  # else there is nobody to tell yet
                self._cancelled.add(command.effect_id)
                asyncio.run_coroutine_threadsafe(server.cancel_program(folder), self._loop)

    # After a crash, and while it runs

    async def _take_up(self):
        """Whatever the last runner had under way: certainly not begun → due again; else each kind says what is true."""
        self._loop = asyncio.get_running_loop()
        under_way = await self.thread(
            lambda: list(Effect.objects.in_flight().filter(runner=self.row).select_related("workspace"))
        )
        for effect in under_way:
            known = await self.thread(self.ledger.get, effect.pk)
            if effect.phase == Phase.CLAIMED and (known is None or known[1] == "claimed"):
                await self.thread(effects.give_back, effect)
            else:
                taken = await self.thread(effects.take_over, effect)
                self._begin(taken, recovering=True)

    async def _beat(self):
        (self.runtime / "heartbeat").mkdir(exist_ok=True, mode=0o700)
        (self.runtime / "heartbeat" / "runner").touch()
        await self.thread(self._beat_in_database)

    def _beat_in_database(self):
        Runner.objects.filter(pk=self.row.pk).update(heartbeat_at=clock.now(), pid=os.getpid())
        effects.extend(self.row)

    async def _watch(self):
        await watching.watch(self)

    async def _sweep(self):
        """Each by itself: one that breaks holds none of the others up."""
        sweeps = [import_string(path) for path in settings.HANDRAIL_SWEEPS]
        mine = (effects.free_what_the_silent_hold, idle.sweep, periodic.sweep, watching.ask_for_what_is_owed)
        for sweep in [*sweeps, *(partial(one, self.row) for one in mine)]:
            try:
                await self.thread(sweep)
            except Exception:
                logger.exception("a sweep stumbled; the next round tries again")

    async def _measure(self):
        await self.vitals.round()

    async def _orphans(self):
        await orphans.sweep(self)


def _refused(effect: Effect):
    """The log says that a runner came back with something that others had taken over."""
    if effect.workspace is not None:
        data = {"kind": effect.kind.rpartition(".")[2], "epoch": effect.epoch, "effect": str(effect.pk)}
        lifecycle.record(effect.workspace, SYSTEM, "effect.refused", data)
