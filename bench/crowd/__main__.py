"""`python -m bench.crowd [--hooks N] [--reads N] [--json] [--before FILE]`: hooks and reads that all come at once.

How many were denied or failed, how long they took, and what web needed for it: memory, threads and, on PostgreSQL
(DATABASE_URL), connections. All hooks wait for a person in the end; how many connections they hold is a row of its own.
`--before` names the figures (`--json`) of another build, to print the ratio to them.
"""

import argparse
import asyncio
import json
import os
import statistics
import tempfile
import time
import uuid
from pathlib import Path

import aiohttp
import psycopg

from tests.support.product import Product

OF_ONE_AGENT = 50  # an agent may have 100 cards that wait
DATABASE = os.environ.get("DATABASE_URL", "")
LOOK_EVERY = 0.2  # seconds


class Watched:
    """The largest figures of the web process and its database while a crowd is there."""

    def __init__(self, pid: int):
        self.pid, self.most = pid, {"MiB": 0, "threads": 0, "connections": 0}

    def look(self) -> dict:
        fields = dict(line.split(":", 1) for line in Path(f"/proc/{self.pid}/status").read_text().splitlines())
        now = {"MiB": int(fields["VmRSS"].split()[0]) // 1024, "threads": int(fields["Threads"])}
        now["connections"] = self._connections()
        self.most = {name: max(self.most[name], value) for name, value in now.items()}
        return now

    def _connections(self) -> int:
        if not DATABASE:
            return 0
        count = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        try:
            with psycopg.connect(DATABASE) as opened:
                return opened.execute(count).fetchone()[0]
        except psycopg.OperationalError:  # there is no connection left
            return 10_000

    async def keep_looking(self):
        while True:
            await asyncio.to_thread(self.look)
            await asyncio.sleep(LOOK_EVERY)


async def hook(session, token: str) -> str:
    event = {
        "session_id": uuid.uuid4().hex,
        "cwd": "/repo",
        "hook_event_name": "PreToolUse",
        "tool_name": "Bash",
        "tool_input": {"command": f"git push origin {uuid.uuid4().hex}"},
        "tool_use_id": uuid.uuid4().hex,
    }
    async with session.post("/hooks/claude-code", json=event, headers={"Authorization": f"Bearer {token}"}) as answer:
        return (await answer.json())["hookSpecificOutput"]["permissionDecision"]


async def read(session, token: str) -> tuple[int, float]:
    began = time.perf_counter()
    async with session.get("/api/v1/workspaces", headers={"Authorization": f"Bearer {token}"}) as answer:
        await answer.read()
        return answer.status, time.perf_counter() - began


async def pending(session, token: str) -> int:
    found, cursor = 0, ""
    while True:
        path = f"/api/v1/actions?status=pending&limit=200{cursor}"
        async with session.get(path, headers={"Authorization": f"Bearer {token}"}) as answer:
            page = await answer.json()
        found += len(page["actions"])
        if not page["cursor"]:
            return found
        cursor = f"&cursor={page['cursor']}"


async def measure(product: Product, hooks: int, reads: int) -> dict:
    tokens = [product.agent_token(f"bench-{number}") for number in range(-(-hooks // OF_ONE_AGENT))]
    person, watched = product.person_token("rita", "lead"), Watched(product.part_pid("web"))
    everything = {"connector": aiohttp.TCPConnector(limit=0), "timeout": aiohttp.ClientTimeout(total=None)}
    async with aiohttp.ClientSession(product.url, **everything) as session:
        await read(session, person)
        before = watched.look()
        watching = asyncio.create_task(watched.keep_looking())
        began = time.perf_counter()
        held = [asyncio.create_task(hook(session, tokens[n // OF_ONE_AGENT])) for n in range(hooks)]
        answers = await asyncio.gather(*(read(session, person) for _ in range(reads)))
        answered = time.perf_counter() - began
        while await pending(session, person) + sum(task.done() for task in held) < hooks:
            await asyncio.sleep(0.5)
        asked = time.perf_counter() - began
        watching.cancel()
        await asyncio.sleep(5)
        waiting = watched.look()
        denied = [task.result() for task in held if task.done()].count("deny")
        for task in held:
            task.cancel()
    seconds = sorted(taken for _, taken in answers)
    return {
        "hooks denied": denied,
        "reads not 200": sum(status != 200 for status, _ in answers),
        "seconds until all reads are answered": round(answered, 1),
        "seconds of a read, median": round(statistics.median(seconds), 2),
        "seconds until all hooks wait": round(asked, 1),
        "MiB before": before["MiB"],
        "MiB at most": watched.most["MiB"],
        "threads at most": watched.most["threads"],
        "connections at most": watched.most["connections"],
        "MiB while hooks wait": waiting["MiB"],
        "threads while hooks wait": waiting["threads"],
        "connections while hooks wait": waiting["connections"],
    }


def main(hooks: int, reads: int) -> dict:
    with tempfile.TemporaryDirectory(prefix="handrail-bench-", ignore_cleanup_errors=True) as folder:
        product = Product(Path(folder, "home"), **({"DATABASE_URL": DATABASE} if DATABASE else {}))
        try:
            product.start()
            return asyncio.run(measure(product, hooks, reads))
        finally:
            product.clean_up()


def printed(found: dict, before: dict) -> str:
    lines = []
    for name, value in found.items():
        ratio = f"{value / before[name]:6.2f} of {before[name]}" if before.get(name) else ""
        lines.append(f"{name:40} {value:>8} {ratio}".rstrip())
    return "\n".join([f"load {os.getloadavg()[0]:.1f}", *lines])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m bench.crowd", description=__doc__)
    parser.add_argument("--hooks", type=int, default=300)
    parser.add_argument("--reads", type=int, default=300)
    parser.add_argument("--json", action="store_true", help="figures as JSON")
    parser.add_argument("--before", type=Path, help="figures of another build, as JSON")
    options = parser.parse_args()
    figures = main(options.hooks, options.reads)
    earlier = json.loads(options.before.read_text()) if options.before else {}
    print(json.dumps(figures, indent=1) if options.json else printed(figures, earlier))
