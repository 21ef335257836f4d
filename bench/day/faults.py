"""The planned faults of the day, one after the other, and when the product had recovered from each."""

import asyncio
import contextlib
import json
import os
import random
import signal
import time
from dataclasses import dataclass, field
from pathlib import Path

from bench.day import watch

BACK_WITHIN = 120.0  # seconds
MEASURED_EVERY = 25.0  # seconds until the runner, which measures disks in rounds, thaws what it froze on a full one


@dataclass
class Fault:
    """A planned fault. `restarts` are the parts that may start again for it; `back` is when /readyz said 200 again."""

    kind: str
    began: float
    back: float = 0.0
    restarts: list[str] = field(default_factory=list)
    outage: bool = True  # whether requests may be refused meanwhile
    kills: bool = True  # whether work may end as uncertain
    host: str = ""  # of several
    after: float = 0.0  # seconds after that within which what it brought about may still be refused


class Faults:
    """Makes one fault after the other; `said` are those that this machine cannot have."""

    def __init__(self, day, chance: random.Random, every: float):
        self.day, self.chance, self.every = day, chance, every
        self.made: list[Fault] = []
        self.said = ["a clock that jumps: left out, libfaketime is not used yet"]
        self.kinds: list = []
        self._choose()

    def _choose(self):
        """Set the kinds that this machine can have."""
        day = self.day
        self.kinds = [self.kill_web, self.kill_runner, self.kill_queue, self.kill_shim, self.kill_sandbox]
        self.kinds += [self.kill_supervisor, self.slow_network, self.freeze_runner, self.freeze_web]
        if day.cluster:
            self.kinds += [self.kill_database, self.stop_database]
        else:
            self.said.append("the database: not stopped, it is SQLite or belongs to somebody else")
        if day.disk.can_be_full:
            self.kinds.append(self.fill_disk)
        else:
            self.said.append("a full disk: left out, nothing can be mounted here")

    async def work(self):
        """Make all kinds in turn, each round in another order, until the day is nearly over."""
        turn: list = []
        await asyncio.sleep(self.every / 2)
        while self.day.left > 25:
            if not turn:
                turn = self.chance.sample(self.kinds, len(self.kinds))
            await turn.pop()()
            await asyncio.sleep(self.every * self.chance.uniform(0.7, 1.3))

    async def _make(self, kind: str, do, undo=None, lasting: float = 0.0, **more):
        fault = Fault(kind, time.time(), **more)
        self.made.append(fault)
        self.day.say(kind)
        try:
            if await asyncio.to_thread(do) is False:
                self.made.remove(fault)
                return
            if undo:
                await asyncio.sleep(lasting)
                await asyncio.to_thread(undo)
            await self._until_back(fault)
        except (OSError, KeyError) as error:  # the part was not there to be killed
            self.day.say(f"{kind}: {error!r}")
            await self._until_back(fault)

    async def _until_back(self, fault: Fault):
        """Wait until /readyz answers 200, and until each killed part has a new process."""
        deadline = time.monotonic() + BACK_WITHIN
        while time.monotonic() < deadline:
            await asyncio.sleep(0.3)
            if await asyncio.to_thread(self._is_ready):
                fault.back = time.time()
                return

    def _is_ready(self) -> bool:
        try:
            return self.day.product.get("/readyz", timeout=5).status == 200
        except OSError:
            return False

    async def _kill_part(self, part: str, host: str = ""):
        def kill():
            supervisor = self.day.supervisors[host].pid
            pid = watch.parts_of(supervisor)[part]
            os.kill(pid, signal.SIGKILL)
            deadline = time.monotonic() + BACK_WITHIN
            while time.monotonic() < deadline:
                if watch.parts_of(supervisor).get(part, pid) != pid:
                    return
                time.sleep(0.1)

        where = f" of {host}" if host else ""
        await self._make(f"kill {part}{where}", kill, restarts=[part], kills=part == "runner", host=host)

    async def kill_web(self):
        await self._kill_part("web")

    async def kill_runner(self):
        await self._kill_part("runner")

    async def kill_queue(self):
        await self._kill_part("queue")

    async def _freeze(self, part: str):
        """Let a part stand still for a while, as on a host without a free processor."""
        stopped = []

        def stand_still():
            stopped.append(watch.parts_of(self.day.product.process.pid)[part])
            os.kill(stopped[0], signal.SIGSTOP)

        def go_on():
            with contextlib.suppress(ProcessLookupError):  # the supervisor may have killed it for its silence
                os.kill(stopped[0], signal.SIGCONT)

        await self._make(f"freeze {part}", stand_still, go_on, self.chance.uniform(3, 12), restarts=[part])

    async def freeze_runner(self):
        await self._freeze("runner")

    async def freeze_web(self):
        await self._freeze("web")

    async def kill_supervisor(self):
        def kill():
            product = self.day.product
            product.process.kill()
            product.process.wait()
            product.start(within=BACK_WITHIN)

        await self._make("kill supervisor", kill, restarts=["web", "runner", "queue"])

    async def kill_shim(self):
        """Kill the process that carries a program's output."""

        def kill():
            running = list(self._of_programs())
            if not running:
                return False
            os.kill(self.chance.choice(running), signal.SIGKILL)
            return True

        await self._make("kill a shim", kill, outage=False)

    def _of_programs(self):
        for claim in self.day.product.home.glob("workspaces/*/programs/*/claim"):
            try:
                pid = json.loads(claim.read_text())["pid"]
                command = Path(f"/proc/{pid}/cmdline").read_bytes()
            except (OSError, ValueError):
                continue
            if b"shim" in command:
                yield pid

    async def kill_sandbox(self):
        """Kill the first process of a workspace, and with it all that runs there."""

        def kill():
            running = list(self._of_runs())
            if not running:
                return False
            os.kill(self.chance.choice(running), signal.SIGKILL)
            return True

        await self._make("kill a sandbox", kill, outage=False)

    def _of_runs(self):
        for record in self.day.product.home.glob("runs/*/record.json"):
            try:
                found = json.loads(record.read_text())
                if watch.start_of(found["pid"]) == found["start_time"]:  # else the number is another process's now
                    yield found["pid"]
            except OSError:
                continue

    async def kill_database(self):
        cluster = self.day.cluster
        await self._make("kill the database", cluster.kill, cluster.start, self.chance.uniform(1, 8))

    async def stop_database(self):
        cluster = self.day.cluster
        await self._make("stop the database", cluster.stop, cluster.start, self.chance.uniform(1, 15))

    async def fill_disk(self):
        disk = self.day.disk
        await self._make(
            "a full disk", disk.fill, disk.empty, self.chance.uniform(5, 15), kills=False, after=MEASURED_EVERY
        )

    async def slow_network(self):
        await self._slow_network(self.chance.uniform(10, 20))

    async def _slow_network(self, lasting: float):
        network = self.day.network

        def slow():
            network.delay, network.rate = 0.1, 200_000.0

        def fast():
            network.delay = network.rate = 0.0

        await self._make("a slow network", slow, fast, lasting, outage=False, kills=False)
