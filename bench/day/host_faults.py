"""The planned faults of a day on several hosts, and what its operator does with hosts and workspaces meanwhile."""

import asyncio
import json
import random
import time
from dataclasses import dataclass

from bench.day import meanwhile
from bench.day.faults import Faults
from bench.day.seen import AWAY, Seen

LAST = {  # {kind: seconds that it lasts, from and to}
    "kill_web": (0, 0),
    "kill_runner": (0, 0),
    "kill_host": (2, 45),
    "kill_bucket": (2, 15),
    "kill_database": (1, 8),
    "cut_host": (3, 45),
    "slow_link": (10, 25),
    "slow_network": (10, 20),
    "drain_host": (10, 30),
    "move_workspace": (0, 0),
    "lose_host": (0, 0),
}
NEEDS_A_CUT = ("cut_host", "slow_link")
DOWN_S, UP_S = 0.2, 0.3  # of a slow link: what is sent while it is down is sent again
SILENT_WITHIN = 90.0  # seconds until a host that was killed is unreachable
ARRIVES_WITHIN = 90.0
ASKS_FOR = 60.0  # seconds for which the operator asks again what an outage refused


@dataclass(frozen=True)
class Planned:
    """A fault to come: so many seconds after the one before, at this host, and with the workspace of this agent."""

    kind: str
    wait: float
    host: str
    lasting: float
    agent: int


def plan(chance: random.Random, hosts: dict[str, list[str]], *, every: float, agents: int, count: int, can_cut: bool):
    """Return the faults of a day in their order, by chance alone: nothing of the day changes what comes next.

    A longer day begins as a shorter one. `hosts` is {name: its parts}. All kinds come in turn, each round in another
    order; one host is lost, once.
    """
    kinds = [kind for kind in LAST if kind != "lose_host" and (can_cut or kind not in NEEDS_A_CUT)]
    webs = [name for name, parts in hosts.items() if "web" in parts]
    loss, turn, found = chance.randrange(1, 4), [], []
    while len(found) < count:
        turn = turn or chance.sample(kinds, len(kinds))
        kind = "lose_host" if len(found) == loss else turn.pop()
        host = chance.choice(webs if kind == "kill_web" else list(hosts))
        wait, lasting = every * chance.uniform(0.7, 1.3), chance.uniform(*LAST[kind])
        found.append(Planned(kind, wait, host, lasting, chance.randrange(agents)))
    return found


class HostFaults(Faults):
    """Makes what `plan` says, one after the other; after each the evidence so far is looked at."""

    def _choose(self):
        product = self.day.product
        self.said += [f"{what}: left out on several hosts" for what in ("a full disk", "a frozen part", "a sandbox")]
        can_cut = product.cluster.network.can_cut
        if not can_cut:
            self.said.append("a cut and a slow link: left out, this user can make no network namespaces")
        self.planned = plan(
            self.chance,
            {name: host.parts.split(",") for name, host in product.hosts.items()},
            every=self.every,
            agents=self.day.sizes[0],
            count=int(self.day.minutes * 60 / self.every) + 2,
            can_cut=can_cut,
        )

    async def work(self):
        for one in self.planned:
            await asyncio.sleep(one.wait)
            if self.day.left < 25:
                return
            await getattr(self, one.kind)(one)
            await asyncio.to_thread(meanwhile.look, self.day)

    def _is_ready(self) -> bool:
        try:
            return self.day.product.is_ready()
        except Exception as error:  # the database is among what may be away
            self.day.say(f"not ready: {error!r}"[:100])
            return False

    # Parts and hosts

    async def kill_web(self, one: Planned):
        await self._kill_part("web", one.host)

    async def kill_runner(self, one: Planned):
        await self._kill_part("runner", one.host)

    async def kill_host(self, one: Planned):
        """Kill all processes of a host, and start it again."""
        host = self.day.product.hosts[one.host]
        await self._make(f"kill {one.host}", host.kill, host.start, one.lasting, host=one.host)

    async def lose_host(self, one: Planned):
        """Kill a host, say that it is lost once it is unreachable, and start it again."""
        host = self.day.product.hosts[one.host]

        def lose():
            host.kill()
            deadline = time.monotonic() + SILENT_WITHIN
            while self._state_of(one.host) != "unreachable" and time.monotonic() < deadline:
                time.sleep(1)
            self._ask("declare a host lost", "POST", f"/hosts/{one.host}/lost")

        await self._make(f"lose {one.host}", lose, host.start, host=one.host)

    def _state_of(self, name: str) -> str:
        heard = self._ask("list hosts", "GET", "/hosts")
        return next((each["state"] for each in heard.get("hosts", []) if each["name"] == name), "")

    # What they share

    async def kill_bucket(self, one: Planned):
        bucket = self.day.product.cluster.bucket
        await self._make("kill the bucket", bucket.kill, bucket.start, one.lasting)

    async def kill_database(self, one: Planned):
        database = self.day.cluster
        await self._make("kill the database", database.kill, database.start, one.lasting)

    async def slow_network(self, one: Planned):
        await self._slow_network(one.lasting)

    async def cut_host(self, one: Planned):
        network, name = self.day.product.cluster.network, self.day.product.hosts[one.host].name
        how = {"lasting": one.lasting, "host": one.host}
        await self._make(f"cut {one.host} off", lambda: network.cut(name), lambda: network.mend(name), **how)

    async def slow_link(self, one: Planned):
        """Let the cable of a host be down now and then, so that all of its traffic crawls."""
        network, name = self.day.product.cluster.network, self.day.product.hosts[one.host].name

        def crawl():
            until = time.monotonic() + one.lasting
            while time.monotonic() < until:
                network.cut(name)
                time.sleep(DOWN_S)
                network.mend(name)
                time.sleep(UP_S)

        await self._make(f"slow link of {one.host}", crawl, host=one.host)

    # The operator

    async def drain_host(self, one: Planned):
        path = f"/hosts/{one.host}"
        await self._make(
            f"drain {one.host}",
            lambda: self._ask("drain a host", "POST", f"{path}/drain"),
            lambda: self._ask("undrain a host", "POST", f"{path}/undrain"),
            one.lasting,
            outage=False,
        )

    async def move_workspace(self, one: Planned):
        path = f"/workspaces/ws-agent-{one.agent}"

        def move():
            self._ask("move a workspace", "POST", f"{path}/move", {"host": one.host})
            deadline = time.monotonic() + ARRIVES_WITHIN
            while self._ask("wait for a move", "GET", path).get("busy") and time.monotonic() < deadline:
                time.sleep(1)

        await self._make(f"move ws-agent-{one.agent} to {one.host}", move, outage=False)

    def _ask(self, verb: str, method: str, path: str, body=None) -> dict:
        """Ask as the operator until an answer is none of an outage; return it as JSON, {} without one."""
        product, until = self.day.product, time.monotonic() + ASKS_FOR
        while True:
            began, at, answer = time.monotonic(), time.time(), None
            try:
                answer = product.call(method, f"/api/v1{path}", self.day.operator, body, timeout=30)
                status, said = answer.status, answer.text[:300] if answer.status >= 400 else ""
            except OSError as error:
                status, said = 0, repr(error)[:200]
            seconds = time.monotonic() - began
            self.day.seen.append(Seen(at, seconds, "operator", verb, status, {"path": path}, said))
            if status not in (0, *AWAY) or time.monotonic() > until:
                return json.loads(answer.body) if answer is not None and answer.body[:1] == b"{" else {}
            time.sleep(1)
