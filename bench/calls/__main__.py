"""`python -m bench.calls [--beside CHECKOUT] [--rounds N] [--json]`: how long an agent waits for Handrail itself.

A hook call that runs by itself, a held call with its run in the box, a command that does nothing, and the answer to an
agent that waits: the median in milliseconds and the SQL statements of all processes. `--beside` runs the build of
another checkout (with its own .venv) in turn with this one, and prints the ratios; statements of what goes on in the
background are taken off by a rate that is measured first. DATABASE_URL names a PostgreSQL server to make databases on.
Run as root it becomes `nobody`. A busy machine says so in `load`.
"""

import argparse
import asyncio
import json
import os
import statistics
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import psycopg

from bench.calls.builds import Build
from bench.projects.__main__ import HOME, USER
from tests.support import CHECKOUT

WAYS = ("call_that_runs", "held_call", "command", "approval")
WARM = 3  # rounds that nobody times
QUIET_S = 10  # over which the statements of a build that does nothing are counted


@contextmanager
def database(name: str):
    """Make a database of this name on the server of DATABASE_URL, and yield its address; "" for SQLite."""
    if not (server := os.environ.get("DATABASE_URL")):
        yield ""
        return
    with psycopg.connect(server, autocommit=True) as opened:
        opened.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')
        opened.execute(f'CREATE DATABASE "{name}"')
    try:
        yield server.replace(urlsplit(server).path, f"/{name}")
    finally:
        with psycopg.connect(server, autocommit=True) as opened:
            opened.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')


@contextmanager
def running(checkouts: dict):
    """Yield the builds; each is removed with its folder and database."""
    if not checkouts:
        yield []
        return
    (name, checkout), *others = checkouts.items()
    with (
        tempfile.TemporaryDirectory(prefix="handrail-calls-", dir=HOME, ignore_cleanup_errors=True) as top,
        database(f"bench_calls_{name}_{os.getpid()}") as address,
    ):
        os.chmod(top, 0o755)
        build = Build(name, checkout, Path(top, name), USER, address)
        try:
            with running(dict(others)) as more:
                yield [build, *more]
        finally:
            build.product.clean_up()


async def background(builds: list[Build]) -> dict:
    """Return {build: statements a second} while nobody asks."""
    before = {build.name: build.count() for build in builds}
    await asyncio.sleep(QUIET_S)
    return {build.name: (build.count() - before[build.name]) / QUIET_S for build in builds}


async def measure(builds: list[Build], ways: list[str], rounds: int) -> list[dict]:
    for build in builds:
        await build.begin()
    quiet = await background(builds)
    found = []
    for way in ways:
        times, statements = {}, {build.name: [] for build in builds}
        for number in range(-WARM, rounds):
            for build in builds if number % 2 else reversed(builds):
                if prepare := getattr(build, f"prepare_{way}", None):
                    await prepare()
                before, began = build.count(), time.perf_counter()
                parts = await getattr(build, way)()
                await asyncio.sleep(0.1)  # for what is done after the answer
                used = build.count() - before - quiet[build.name] * (time.perf_counter() - began)
                if number >= 0:
                    statements[build.name].append(used)
                    for part, seconds in parts.items():
                        times.setdefault(part, {}).setdefault(build.name, []).append(seconds * 1000)
        for part, by_build in times.items():
            row = {name: round(statistics.median(values), 1) for name, values in by_build.items()}
            found.append({"what": part, "unit": "ms", **row})
        row = {name: round(statistics.median(values)) for name, values in statements.items()}
        found.append({"what": "  statements", "unit": "", **row})
    for build in builds:
        await build.end()
    return [row | _ratio(row, builds) for row in found]


def _ratio(row: dict, builds: list[Build]) -> dict:
    return {"ratio": round(row["here"] / row["beside"], 2)} if len(builds) == 2 else {}


def main(options):
    checkouts = {"here": CHECKOUT} | ({"beside": options.beside.resolve()} if options.beside else {})
    with running(checkouts) as builds:
        rows = asyncio.run(measure(builds, options.ways or WAYS, options.rounds))
    load = [round(each, 1) for each in os.getloadavg()]
    if options.json:
        print(json.dumps({"load": load, "rows": rows}, indent=1))
        return
    print(f"load {load}, {'PostgreSQL' if os.environ.get('DATABASE_URL') else 'SQLite'}")
    for row in rows:
        figures = "   ".join(f"{name} {row[name]:7} {row['unit']:2}" for name in checkouts)
        print(f"{row['what']:32} {figures}   {row.get('ratio', '')}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m bench.calls", description=__doc__)
    parser.add_argument("ways", nargs="*", metavar="WAY", help=f"some of {', '.join(WAYS)}")
    parser.add_argument("--beside", type=Path, help="another checkout")
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--json", action="store_true")
    main(parser.parse_args())
