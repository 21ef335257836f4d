"""`python -m bench.commands [--rounds N] [--agents N] [--json]`: how long an agent waits for Handrail itself.

A command that does nothing (post, wait, output), the answer to an agent that waits, and many agents that are told of
one decision; in milliseconds, on SQLite and the sandbox driver. Exits 1 when a limit is passed. A busy machine says so
in `load`.
"""

import argparse
import asyncio
import json
import os
import sys
import time

from bench.desk import Desk, running
from bench.figures import spread
from bench.hold.__main__ import hook, waiting

OF_ONE_AGENT = 50  # an agent may have 100 actions that wait
CROWDS = 3  # rounds with many agents
SETTLE = 3  # seconds after which all that was asked waits
# The most that the median may be, in milliseconds.
LIMITS = {
    "command: post, wait, output": 60,
    "approved to agent hears": 30,
    "one approval to {agents} polls": 1000,
    "one stop to {agents} hooks": 1000,
}


async def commands(desk: Desk, key: str, rounds: int) -> dict:
    """Run a command that does nothing: post it, wait for it, read its output; time the whole and the three parts."""
    parts = {"command: post, wait, output": [], "  post": [], "  wait": [], "  output": []}
    for _ in range(rounds):
        began = time.perf_counter()
        asked = await desk.call("POST", f"/workspaces/{key}/commands", desk.agent, {"argv": ["true"]})
        posted = time.perf_counter()
        ended = await desk.finished(asked)
        heard = time.perf_counter()
        if ended["exit_status"] != 0:
            raise RuntimeError(f"the command ended otherwise: {ended}")
        path, headers = f"/api/v1/commands/{asked['id']}/output", {"Authorization": f"Bearer {desk.agent}"}
        async with desk.session.get(path, headers=headers) as answer:
            if await answer.read() != b"":
                raise RuntimeError("true printed something")
        read = time.perf_counter()
        for title, seconds in zip(parts, (read - began, posted - began, heard - posted, read - heard), strict=True):
            parts[title].append(seconds)
    return {title: spread(times) for title, times in parts.items()}


async def answers(desk: Desk, rounds: int) -> dict:
    """From the reviewer's approval until the agent's open poll returns."""
    clicked, heard = [], []
    for _ in range(rounds):
        action = await desk.ask()
        poll = asyncio.create_task(desk.poll(action))
        await asyncio.sleep(0.3)
        began = time.perf_counter()
        await desk.approve(action)
        approved = time.perf_counter()
        await poll
        ended = time.perf_counter()
        heard.append(max(0.0, ended - approved))
        clicked.append(ended - began)
    return {"approved to agent hears": spread(heard), "  with the approval's request": spread(clicked)}


async def polls_of_one(desk: Desk, count: int, rounds: int) -> dict:
    """So many open polls of one action, until the last has heard its approval."""
    times = []
    for _ in range(rounds):
        action = await desk.ask()
        polls = [asyncio.create_task(desk.poll(action)) for _ in range(count)]
        await asyncio.sleep(SETTLE)
        await desk.approve(action)
        approved = time.perf_counter()
        found = await asyncio.gather(*polls)
        times.append(time.perf_counter() - approved)
        if {each["status"] for each in found} != {"approved"}:
            raise RuntimeError("not every poll heard the approval")
    return {f"one approval to {count} polls": spread(times)}


async def hooks_of_a_stop(desk: Desk, count: int, rounds: int) -> dict:
    """So many held hooks, each with an action of its own, until the last has heard that everything was stopped."""
    times = []
    tokens = [desk.product.agent_token(f"hooks-{number}") for number in range(-(-count // OF_ONE_AGENT))]
    for _ in range(rounds):
        held = [asyncio.create_task(hook(desk.session, tokens[n // OF_ONE_AGENT])) for n in range(count)]
        await waiting(desk, count)
        await asyncio.sleep(SETTLE)
        await desk.call("POST", "/stop", desk.person, {})
        stopped = time.perf_counter()
        decisions = await asyncio.gather(*held)
        times.append(time.perf_counter() - stopped)
        if set(decisions) != {"deny"}:
            raise RuntimeError("not every hook heard of the stop")
        await desk.call("POST", "/stop/lift", desk.person, {})
    return {f"one stop to {count} hooks": spread(times)}


async def measure(rounds: int, agents: int):
    """Yield the figures as they are found: {title: row}."""
    yield {"load": [round(load, 1) for load in os.getloadavg()], "cores": os.cpu_count()}
    async with running() as desk:
        key = await desk.workspace()
        await commands(desk, key, 5)  # what is loaded at its first use
        yield await commands(desk, key, rounds)
        await answers(desk, 3)
        yield await answers(desk, rounds)
        yield await polls_of_one(desk, agents, CROWDS)
        yield await hooks_of_a_stop(desk, agents, CROWDS)


async def main(options) -> dict:
    limits, figures = {title.format(agents=options.agents): limit for title, limit in LIMITS.items()}, {}
    async for part in measure(options.rounds, options.agents):
        figures |= part
        for title, row in part.items():
            limit = f"   limit {limits[title]}" if title in limits else ""
            if not options.json:
                print(f"{title:35} {json.dumps(row)}{limit}", flush=True)
    if options.json:
        print(json.dumps(figures, indent=1))
    return {title: limit for title, limit in limits.items() if figures[title]["p50"] > limit}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m bench.commands", description=__doc__)
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--agents", type=int, default=300, help="those that wait for one decision")
    parser.add_argument("--json", action="store_true", help="figures as JSON")
    options = parser.parse_args()
    late = asyncio.run(main(options))
    if late:
        print(f"Slower than it may be: {', '.join(late)}.", file=sys.stderr)
    sys.exit(1 if late else 0)
