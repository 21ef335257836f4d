"""`python -m bench.hold [--hooks N] [--json]`: Claude Code's hooks that wait for a person, all at once.

Threads, memory and processor time of web while they wait, and the seconds from the first approval until every hook has
heard its own. A busy machine says so in `load`.
"""

import argparse
import asyncio
import json
import os
import tempfile
import time
import uuid
from pathlib import Path

import aiohttp

from bench.desk import Desk
from tests.support.product import Product

OF_ONE_AGENT = 50  # an agent may have 100 cards that wait
APPROVALS_AT_ONCE = 8
WATCHED = 30  # seconds that all of them are left waiting


def of_process(pid: int) -> dict:
    fields = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    ticks = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[11:13]
    seconds = sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")
    return {"threads": int(fields["Threads"]), "MiB": int(fields["VmRSS"].split()[0]) // 1024, "cpu_s": seconds}


async def hook(session, token: str) -> str:
    event = {
        "session_id": uuid.uuid4().hex,
        "cwd": "/repo",
        "hook_event_name": "PreToolUse",
        "tool_name": "Bash",
        "tool_input": {"command": f"git push origin {uuid.uuid4().hex}"},
        "tool_use_id": uuid.uuid4().hex,
    }
    headers = {"Authorization": f"Bearer {token}"}
    async with session.post("/hooks/claude-code", json=event, headers=headers) as answer:
        return (await answer.json())["hookSpecificOutput"]["permissionDecision"]


async def waiting(desk: Desk, count: int) -> list[dict]:
    """Return the cards, once `count` of them wait."""
    while True:
        found = await desk.call("GET", "/actions?status=pending&limit=200", desk.person)
        cards, cursor = found["actions"], found["cursor"]
        while cursor:
            found = await desk.call("GET", f"/actions?status=pending&limit=200&cursor={cursor}", desk.person)
            cards, cursor = cards + found["actions"], found["cursor"]
        if len(cards) >= count:
            return cards
        await asyncio.sleep(1)


async def measure(product: Product, hooks: int) -> dict:
    tokens = [product.agent_token(f"bench-{number}") for number in range(-(-hooks // OF_ONE_AGENT))]
    person, pid = product.person_token("rita", "lead"), product.part_pid("web")
    timeout = aiohttp.ClientTimeout(total=None)
    async with aiohttp.ClientSession(product.url, connector=aiohttp.TCPConnector(limit=0), timeout=timeout) as session:
        desk = Desk(session, tokens[0], person)
        await desk.call("GET", "/me", person)
        before = of_process(pid)
        held = [asyncio.create_task(hook(session, tokens[n // OF_ONE_AGENT])) for n in range(hooks)]
        cards = await waiting(desk, hooks)
        await asyncio.sleep(5)
        begin = of_process(pid)
        await asyncio.sleep(WATCHED)
        end = of_process(pid)
        began = time.perf_counter()
        queue = iter(cards)

        async def approve():
            for card in queue:
                await desk.approve(card)

        await asyncio.gather(*(approve() for _ in range(APPROVALS_AT_ONCE)))
        approved = time.perf_counter() - began
        decisions = await asyncio.gather(*held)
        heard = time.perf_counter() - began
    return {
        "load": [round(load, 1) for load in os.getloadavg()],
        "before": before,
        f"{hooks} wait": end | {"cpu_s": round((end["cpu_s"] - begin["cpu_s"]) / WATCHED, 3)},
        "allowed": decisions.count("allow"),
        "seconds until all are approved": round(approved, 1),
        "seconds until all have heard": round(heard, 1),
    }


def main(hooks: int) -> dict:
    with tempfile.TemporaryDirectory(prefix="handrail-bench-", ignore_cleanup_errors=True) as folder:
        product = Product(Path(folder, "home"))
        try:
            product.start()
            return asyncio.run(measure(product, hooks))
        finally:
            product.clean_up()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m bench.hold", description=__doc__)
    parser.add_argument("--hooks", type=int, default=300)
    parser.add_argument("--json", action="store_true", help="figures as JSON")
    options = parser.parse_args()
    found = main(options.hooks)
    print(
        json.dumps(found, indent=1) if options.json else "\n".join(f"{k:35} {json.dumps(v)}" for k, v in found.items())
    )
