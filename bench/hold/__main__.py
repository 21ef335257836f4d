"""`python -m bench.hold [--hooks N] [--hosts N --workspaces N] [--json]`: Claude Code's hooks that wait for a person.

All of them wait at once. Threads, memory and processor time of each web while they wait; the seconds from a decision
until its hook has heard it, of decisions that come one by one; and the seconds from the first of all other approvals
until every hook has heard its own. With several hosts the hooks go through nginx to two webs over one PostgreSQL, in an
installation that has as many workspaces on each host as `--workspaces` says (rows of paused ones). A busy machine says
so in `load`.
"""

import argparse
import asyncio
import contextlib
import json
import os
import tempfile
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import aiohttp

from bench.cluster.hosts import Cluster
from bench.day import watch
from bench.desk import Desk
from bench.figures import spread
from tests.support.product import Product

OF_ONE_AGENT = 50  # an agent may have 100 cards that wait
APPROVALS_AT_ONCE = 8
WATCHED = 30  # seconds that all of them are left waiting
ONE_BY_ONE = 0.25  # of the hooks are answered so
PAUSE = 0.2  # seconds between two such answers
PAUSED_WORKSPACES = """
from dashboard.models import Team
from workspaces.models import Environment, Runner, State, Workspace
team = Team.objects.get(slug="main")
environment = Environment.objects.filter(team=team).first() or Environment.objects.create(team=team, name="default")
Workspace.objects.bulk_create(
    Workspace(team=team, key=f"{{runner.host}}-{{n}}", environment=environment, runner=runner, state=State.PAUSED)
    for runner in Runner.objects.all() for n in range({workspaces})
)
print(Workspace.objects.count())
"""


@dataclass
class Tried:
    """What is measured: its address, the process ids of its webs, the agents' tokens and a lead's."""

    url: str
    webs: list[int]
    agents: list[str]
    person: str


@contextlib.contextmanager
def one_host(folder: Path, agents: int) -> Iterator[Tried]:
    product = Product(folder / "home", **_room_for(agents))
    try:
        product.start()
        tokens = [product.agent_token(f"bench-{number}") for number in range(agents)]
        yield Tried(product.url, [product.part_pid("web")], tokens, product.person_token("rita", "lead"))
    finally:
        product.clean_up()


@contextlib.contextmanager
def several_hosts(folder: Path, agents: int, hosts: int, workspaces: int) -> Iterator[Tried]:
    cluster = Cluster(folder / "cluster", hosts=hosts, environment=_room_for(agents))
    try:
        cluster.up()
        webs = [watch.parts_of(host.process.pid)["web"] for host in cluster.hosts.values() if host.has_web]
        tokens = [cluster.agent_token(f"bench-{number}") for number in range(agents)]
        cluster.first.manage("shell", "-c", PAUSED_WORKSPACES.format(workspaces=workspaces))
        yield Tried(cluster.url, webs, tokens, cluster.token("rita"))
    finally:
        cluster.down()


def _room_for(agents: int) -> dict[str, str]:
    """Return the setting that lets all their calls wait at once; a team's limit is otherwise 500."""
    return {"HANDRAIL_PENDING_LIMIT": str(agents * OF_ONE_AGENT)}


def of_process(pid: int) -> dict:
    fields = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    ticks = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[11:13]
    seconds = sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")
    return {"threads": int(fields["Threads"]), "MiB": int(fields["VmRSS"].split()[0]) // 1024, "cpu_s": seconds}


async def hook(session, token: str, command: str) -> tuple[str, float]:
    """Ask, and return the answer and the moment at which it was heard."""
    event = {
        "session_id": uuid.uuid4().hex,
        "cwd": "/repo",
        "hook_event_name": "PreToolUse",
        "tool_name": "Bash",
        "tool_input": {"command": command},
        "tool_use_id": uuid.uuid4().hex,
    }
    headers = {"Authorization": f"Bearer {token}"}
    async with session.post("/hooks/claude-code", json=event, headers=headers) as answer:
        answered = await answer.json()
        return answered["hookSpecificOutput"]["permissionDecision"], time.perf_counter()


async def waiting(desk: Desk, held: dict[str, asyncio.Task]) -> list[dict]:
    """Return the cards, once all hooks wait; RuntimeError if one was answered instead."""
    while True:
        if answered := [task.result() for task in held.values() if task.done()]:
            raise RuntimeError(f"{len(answered)} hooks do not wait, the first was answered {answered[0][0]}")
        found = await desk.call("GET", "/actions?status=pending&limit=200", desk.person)
        cards, cursor = found["actions"], found["cursor"]
        while cursor:
            found = await desk.call("GET", f"/actions?status=pending&limit=200&cursor={cursor}", desk.person)
            cards, cursor = cards + found["actions"], found["cursor"]
        if len(cards) >= len(held):
            return cards
        await asyncio.sleep(1)


async def decided_one_by_one(desk: Desk, cards: list[dict], held: dict[str, asyncio.Task]) -> list[float]:
    """Return the seconds from each decision, as it is sent, until its hook has heard it."""
    taken = []
    for card in cards:
        whole = await desk.call("GET", f"/actions/{card['id']}", desk.person)
        began = time.perf_counter()
        await desk.approve(card)
        _, heard = await held[whole["arguments"]["command"]]
        taken.append(heard - began)
        await asyncio.sleep(PAUSE)
    return taken


async def decided_at_once(desk: Desk, cards: list[dict], held: dict[str, asyncio.Task]) -> dict:
    began = time.perf_counter()
    queue = iter(cards)

    async def approve():
        for card in queue:
            await desk.approve(card)

    await asyncio.gather(*(approve() for _ in range(APPROVALS_AT_ONCE)))
    approved = time.perf_counter() - began
    await asyncio.gather(*held.values())
    heard = time.perf_counter() - began
    return {
        f"seconds until {len(cards)} are approved": round(approved, 1),
        f"seconds until {len(cards)} have heard": round(heard, 1),
    }


async def measure(tried: Tried, hooks: int) -> dict:
    timeout = aiohttp.ClientTimeout(total=None)
    async with aiohttp.ClientSession(tried.url, connector=aiohttp.TCPConnector(limit=0), timeout=timeout) as session:
        desk = Desk(session, tried.agents[0], tried.person)
        await desk.call("GET", "/me", tried.person)
        before = [of_process(pid) for pid in tried.webs]
        commands = [f"git push origin {uuid.uuid4().hex}" for _ in range(hooks)]
        held = {
            command: asyncio.create_task(hook(session, tried.agents[number // OF_ONE_AGENT], command))
            for number, command in enumerate(commands)
        }
        cards = await waiting(desk, held)
        await asyncio.sleep(5)
        begin = [of_process(pid) for pid in tried.webs]
        await asyncio.sleep(WATCHED)
        end = [of_process(pid) for pid in tried.webs]
        alone = int(hooks * ONE_BY_ONE)
        one_by_one = await decided_one_by_one(desk, cards[:alone], held)
        at_once = await decided_at_once(desk, cards[alone:], held)
        decisions = [task.result()[0] for task in held.values()]
    return {
        "load": [round(load, 1) for load in os.getloadavg()],
        "before": before,
        f"{hooks} wait": [
            later | {"cpu_s": round((later["cpu_s"] - earlier["cpu_s"]) / WATCHED, 3)}
            for earlier, later in zip(begin, end, strict=True)
        ],
        "after": [of_process(pid) for pid in tried.webs],
        "allowed": decisions.count("allow"),
        "ms until a decision is heard": spread(one_by_one),
    } | at_once


def main(hooks: int, hosts: int = 1, workspaces: int = 0) -> dict:
    agents = -(-hooks // OF_ONE_AGENT)
    with tempfile.TemporaryDirectory(prefix="handrail-bench-", ignore_cleanup_errors=True) as folder:
        ground = several_hosts(Path(folder), agents, hosts, workspaces) if hosts > 1 else one_host(Path(folder), agents)
        with ground as tried:
            return asyncio.run(measure(tried, hooks))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m bench.hold", description=__doc__)
    parser.add_argument("--hooks", type=int, default=300)
    parser.add_argument("--hosts", type=int, default=1, choices=range(1, 5))
    parser.add_argument("--workspaces", type=int, default=400, help="on each of several hosts")
    parser.add_argument("--json", action="store_true", help="figures as JSON")
    options = parser.parse_args()
    found = main(options.hooks, options.hosts, options.workspaces)
    print(
        json.dumps(found, indent=1) if options.json else "\n".join(f"{k:35} {json.dumps(v)}" for k, v in found.items())
    )
