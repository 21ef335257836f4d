"""`python -m bench.loop [--rounds N] [--waiting N] [--json]`: the loop of one action, from the agent's call and back.

Milliseconds and calls per second on this machine, beside what the parts cost bare: a WebSocket echo through the same
server, and an empty bubblewrap. A busy machine says so in `load`.
"""

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import time

import aiohttp

from bench.loop.desk import Desk, echo_server, running
from workspaces.drivers.sandbox import find_bwrap

AT_ONCE = 8  # calls in flight where calls per second are counted


def spread(seconds: list[float]) -> dict:
    """{p50, p99, max, n} in milliseconds."""
    cuts = statistics.quantiles(seconds, n=100, method="inclusive")
    values = {"p50": cuts[49], "p99": cuts[98], "max": max(seconds)}
    return {name: round(value * 1000, 1) for name, value in values.items()} | {"n": len(seconds)}


async def round_trips(desk: Desk, rounds: int) -> dict:
    """Agent posts, the reviewer's socket hears, the reviewer decides, the agent's open poll returns."""
    heard, decided, returned, whole = [], [], [], []
    for _ in range(rounds):
        async with desk.listening() as hear:
            began = time.perf_counter()
            action = await desk.ask()
            poll = asyncio.create_task(desk.poll(action))
            at = await hear()
            heard.append(at - began)
            asked = time.perf_counter()
            await desk.approve(action)
            answered = time.perf_counter()
            decided.append(answered - asked)
            await poll
            returned.append(time.perf_counter() - answered)
            whole.append(time.perf_counter() - began)
    legs = {"asked to heard": heard, "decide": decided, "decided to poll returned": returned, "whole": whole}
    return {name: spread(times) for name, times in legs.items()}


async def beside(desk: Desk, waiting: int, measure) -> dict:
    """`measure()` while so many other agents wait in long polls."""
    actions = [await desk.ask() for _ in range(waiting)]
    polls = [asyncio.create_task(desk.poll(action)) for action in actions]
    await asyncio.sleep(2)
    try:
        return await measure()
    finally:
        for poll in polls:
            poll.cancel()
        await asyncio.gather(*polls, return_exceptions=True)
        for action in actions:
            await desk.call("POST", f"/actions/{action['id']}/cancel", desk.agent, {})


async def echoes(rounds: int) -> dict:
    async with echo_server() as url, aiohttp.ClientSession() as session, session.ws_connect(url) as socket:
        times = []
        for number in range(rounds):
            began = time.perf_counter()
            await socket.send_str(str(number))
            await socket.receive_str()
            times.append(time.perf_counter() - began)
        return spread(times)


async def per_second(calls) -> float:
    """So many of these calls a second, AT_ONCE in flight."""
    calls, began = list(calls), time.perf_counter()
    queue = iter(calls)

    async def work():
        for call in queue:
            await call()

    await asyncio.gather(*(work() for _ in range(AT_ONCE)))
    return round(len(calls) / (time.perf_counter() - began), 1)


async def throughput(desk: Desk, rounds: int) -> dict:
    asked = []

    async def ask():
        asked.append(await desk.ask())

    submit = await per_second([ask] * rounds)
    decide = await per_second([lambda action=action: desk.approve(action) for action in asked])
    return {"submit": submit, "decide": decide}


async def first_output(desk: Desk, key: str, rounds: int) -> dict:
    """From the reviewer's click to the first thing that the brokered command does; it says itself when that was."""
    times = []
    for number in range(rounds):
        wish = {"command": f"date +%s%N > began-{number}; eval true"}
        action = await desk.ask(tool="Bash", arguments=wish, workspace=key, mode="broker")
        clicked = time.time_ns()
        await desk.approve(action)
        while (await desk.call("GET", f"/actions/{action['id']}?wait=25", desk.agent))["status"] in (
            "approved",
            "running",
        ):
            pass
        path = f"/api/v1/workspaces/{key}/files/began-{number}"
        async with desk.session.get(path, headers={"Authorization": f"Bearer {desk.agent}"}) as answer:
            times.append((int(await answer.text()) - clicked) / 1e9)
    return spread(times)


async def commands(desk: Desk, key: str, rounds: int) -> dict:
    """Run a command that does nothing, from the call to its end."""
    times = []
    for _ in range(rounds):
        began = time.perf_counter()
        await desk.finished(await desk.call("POST", f"/workspaces/{key}/commands", desk.agent, {"argv": ["true"]}))
        times.append(time.perf_counter() - began)
    return spread(times)


def bare_bwrap(rounds: int) -> dict:
    bwrap = find_bwrap()
    command = [str(bwrap.path), "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--unshare-all", "true"]
    times = []
    for _ in range(rounds):
        began = time.perf_counter()
        subprocess.run(command, check=True)
        times.append(time.perf_counter() - began)
    return spread(times)


async def measure(rounds: int, waiting: int) -> dict:
    figures = {"load": [round(load, 1) for load in os.getloadavg()], "cores": os.cpu_count()}
    figures["WebSocket echo through daphne"] = await echoes(rounds * 10)
    figures["bwrap true"] = bare_bwrap(rounds)
    async with running() as desk:
        figures["round trip, 1 waits"] = await round_trips(desk, rounds)
        figures[f"round trip, {waiting} wait"] = await beside(desk, waiting - 1, lambda: round_trips(desk, rounds))
        figures["calls per second"] = await throughput(desk, rounds * 5)
        key = await desk.workspace()
        figures["approve to the command's start"] = await first_output(desk, key, rounds)
        figures["command round trip"] = await commands(desk, key, rounds)
    return figures


def show(figures: dict):
    for title, found in figures.items():
        nested = isinstance(found, dict) and isinstance(next(iter(found.values())), dict)
        for name, row in found.items() if nested else [("", found)]:
            print(f"{title + (', ' if name else '') + name:55} {json.dumps(row)}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m bench.loop", description=__doc__)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--waiting", type=int, default=200, help="agents in long polls")
    parser.add_argument("--json", action="store_true", help="figures as JSON")
    options = parser.parse_args()
    found = asyncio.run(measure(options.rounds, options.waiting))
    print(json.dumps(found, indent=1)) if options.json else show(found)
