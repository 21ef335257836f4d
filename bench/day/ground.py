"""The day: a product with its people and agents, the way to it, and what breaks it."""

import asyncio
import contextlib
import random
import subprocess
import sys
import time
from pathlib import Path

import aiohttp

from bench.day import evidence
from bench.day.agents import Agent
from bench.day.cluster import Cluster
from bench.day.data import Data
from bench.day.disk import Disk
from bench.day.faults import Faults
from bench.day.findings import Finding
from bench.day.host_faults import HostFaults
from bench.day.network import Network
from bench.day.people import Person, Reader, Stranger
from bench.day.pod_faults import PodFaults
from bench.day.pods import ENVIRONMENT, PodGround
from bench.day.seen import Seen
from bench.day.several import SeveralHosts
from bench.day.watch import Watch
from tests.support.desk import SUPERUSER
from tests.support.product import Product

ROLES = {"rita": "reviewer", "lena": "lead", "adam": "admin", "remy": "reviewer"}
QUIET = 90.0  # seconds after the end within which all that is in flight must come to an end
NOTED = 5.0  # seconds within which the queue notes how the last scheduled run ended
MAX_FORKS = 12
SECRETS = """
from dashboard.models import Actor, Team
from workspaces import secrets
secrets.save(Team.objects.get(slug="main"), "DEPLOY_KEY", "agent", {value!r}, by=Actor.system("day"))
"""


class Day:
    """`seen` holds the journals of the actors; each of them stops when `is_over` is set.

    `found` are the findings of the time before the end, which only a day on several hosts looks for.
    """

    def __init__(self, *, seed: int, minutes: float, database: str, agents: int, people: int, every: float, **ground):
        self.seed, self.minutes, self.database, self.hosts = seed, minutes, database, ground["hosts"]
        self.in_pods, self.made_from = ground["driver"] == "kubernetes", {}
        self.chance = random.Random(seed)
        self.sizes, self.every = (agents, people), every
        self.seen: list[Seen] = []
        self.found: list[Finding] = []
        self.is_over, self.pause, self.forks = False, 0.5, 0
        self.began = self.ends = 0.0
        self.cluster: Cluster | None = None
        self.pods: PodGround | None = None
        self.disk: Disk | None = None
        self.watch = Watch(self)

    def say(self, words: str):
        print(f"{time.time() - self.began:6.0f} s  {words}", file=sys.stderr, flush=True)

    @property
    def left(self) -> float:
        return self.ends - time.monotonic()

    def may_fork(self) -> bool:
        self.forks += 1
        return self.forks <= MAX_FORKS

    # Before and after

    def open(self):
        """Make the repository, the disk and the database server of the day, start the product, and make its tokens."""
        self.began = time.time()
        self.disk = Disk(mount=self.hosts == 1)
        self._make_repository()
        environment = {"HANDRAIL_RESERVE_BYTES": "60000000", "HANDRAIL_LOCAL_SOURCES": str(self.disk.folder)}
        if self.in_pods:
            self.pods = PodGround(self.disk.folder)
            environment |= self.pods.up()
            self.say("the cluster has started")
        self._start(environment)
        self.say("the product has started")
        self.product.shell(SECRETS.format(value=evidence.CANARY))
        self.agents = [self.product.agent_token(f"agent-{n}") for n in range(self.sizes[0])]
        names = list(ROLES)[: self.sizes[1]]
        self.people = {name: self.product.person_token(name, ROLES[name]) for name in names}
        self.reader = self.product.person_token("log-reader", "lead")
        if self.hosts > 1:
            self.operator = self.product.person_token("operator", "admin")
            self.product.shell(SUPERUSER.format(name="operator"))
        if self.pods:
            self.pods.make_environment(self.product, self.reader)
            self.made_from = {"environment": ENVIRONMENT}
        self.stranger = self.product.agent_token("stranger", team="other")

    def _start(self, environment: dict[str, str]):
        if self.hosts > 1:
            self.product = SeveralHosts(self.disk.folder / "cluster", self.hosts, **environment)
            self.product.start(self.say)
            self.cluster = self.product.cluster.database
            self.data = Data(self.product.homes, self.product.cluster.bucket.environment)
            return
        if self.database == "postgres":
            self.cluster = Cluster()
            environment["DATABASE_URL"] = self.cluster.url
        elif self.database:
            environment["DATABASE_URL"] = self.database
        self.product = Product(self.disk.mount / "home", **environment)
        self.product.start()
        self.data = Data({"": self.product.home})

    def _make_repository(self):
        """Make the repository that workspaces come from and push to."""
        work, self.source = self.disk.folder / "work", self.disk.folder / "app.git"
        work.mkdir()
        git = ["git", "-C", str(work), "-c", "user.name=T", "-c", "user.email=t@example.org"]
        subprocess.run([*git, "init", "-q", "-b", "main"], check=True)
        for number in range(60):
            path = work / f"src/part{number % 6}/module{number}.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            lines = (f"def f{number}_{line}():\n    return {line}  # TODO\n" for line in range(40))
            path.write_text("".join(lines))
        (work / "README.md").write_text("# App\n\n" + "A line of it.\n" * 40)
        subprocess.run([*git, "add", "."], check=True)
        subprocess.run([*git, "commit", "-qm", "Begin"], check=True)
        subprocess.run(["git", "clone", "-q", "--bare", str(work), str(self.source)], check=True)

    def close(self):
        if hasattr(self, "product"):
            self.product.clean_up()
        if self.cluster:
            self.cluster.clean_up()
        if self.pods:
            self.pods.close()
        if self.disk:
            self.disk.clean_up()

    # Itself

    async def pass_by(self):
        """Let all of them work, and wait at the end until nothing is in flight any more."""
        self.network = Network(self.product.port, getattr(self.product, "address", "127.0.0.1"))
        self.url = f"http://127.0.0.1:{await self.network.start()}"
        kinds = HostFaults if self.hosts > 1 else PodFaults if self.in_pods else Faults
        self.faults = kinds(self, random.Random(self.seed + 1), self.every)
        connector = aiohttp.TCPConnector(limit=0)
        headers = {"Host": self.product.desk_host["Host"]}
        async with aiohttp.ClientSession(connector=connector, headers=headers) as self.session:
            self.ends = time.monotonic() + self.minutes * 60
            watching = asyncio.create_task(self.watch.work())
            actors = self._actors()
            working = [asyncio.create_task(actor.work(), name=actor.name) for actor in actors]
            failing = asyncio.create_task(self.faults.work())
            while self.left > 0 and not self._broken(working):
                await asyncio.sleep(1)
            await failing
            self.is_over = True
            self.say("the day is over; waiting for what is in flight")
            await asyncio.wait(working, timeout=QUIET)
            for task in working:
                if not task.done():
                    self.say(f"{task.get_name()} did not end")
                    task.cancel()
            await asyncio.to_thread(self._pause_schedules)
            self.in_flight = await self._until_quiet()
            if self.pods:
                keys = [f"ws-{agent.name}" for agent in actors if isinstance(agent, Agent)]
                await asyncio.to_thread(self.pods.bring_files_back, self.product, self.reader, keys)
            await asyncio.sleep(NOTED)
            reader = actors[-1]
            while await reader.step(wait=0):
                pass
            self._broken(working)
            watching.cancel()
        await self.network.stop()

    def _actors(self) -> list:
        def chance():
            return random.Random(self.chance.random())

        agents = [Agent(f"agent-{n}", token, self, chance()) for n, token in enumerate(self.agents)]
        people = [Person(name, token, self, chance(), ROLES[name]) for name, token in self.people.items()]
        stranger = Stranger("stranger", self.stranger, self, chance())
        return [*agents, *people, stranger, Reader("log-reader", self.reader, self)]

    def _broken(self, working: list[asyncio.Task]) -> bool:
        """Raise what an actor's own fault raised: a day with an actor less proves less."""
        for task in working:
            if task.done() and not task.cancelled() and (error := task.exception()):
                raise RuntimeError(f"{task.get_name()} broke down") from error
        ended = any(process.poll() is not None for process in self.supervisors.values())
        return ended and not self.faults.made

    @property
    def supervisors(self) -> dict[str, subprocess.Popen]:
        """Return {host: its `manage.py up`}, with one host {"": …}."""
        return self.product.supervisors if self.hosts > 1 else {"": self.product.process}

    def _pause_schedules(self):
        """Pause all schedules, because the evidence is read one table after the other."""
        for row in evidence.rows_of(self, "select id from workspaces_schedule"):
            with contextlib.suppress(OSError):
                self.product.post(f"/api/v1/schedules/{row['id']}/pause", self.people.get("adam", ""))

    async def _until_quiet(self) -> list:
        """Wait until no operation is open; return those that still were."""
        deadline = time.monotonic() + QUIET
        while open_now := await asyncio.to_thread(evidence.in_flight, self):
            if time.monotonic() > deadline:
                break
            await asyncio.sleep(1)
        return open_now

    @property
    def home(self) -> Path:
        return self.product.home
