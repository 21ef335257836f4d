"""`python -m bench.pages.changes [--json]`: server time of the Changes tab with 1,000 changed files, and a long one.

Two snapshots of a scratch workspace are compared: 1,000 files of 40 lines, each with 20 changed lines; then one file of
100,000 lines, new and with one changed line. Each page is asked for again and again in one process, as in bench.pages.
`cpu` is the processor time of that process, which another load of the machine changes less.
"""

import argparse
import json
import os
import statistics
import tempfile
import time
from pathlib import Path

FILES, ROUNDS = 1000, 10


def main():
    parser = argparse.ArgumentParser(prog="python -m bench.pages.changes", description=__doc__)
    parser.add_argument("--json", action="store_true", help="one JSON object instead of a table")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="handrail-bench-") as home:
        os.environ.update(HANDRAIL_HOME=home, HANDRAIL_RUNTIME=f"{home}/run", HANDRAIL_DEBUG="1")
        os.environ["DJANGO_SETTINGS_MODULE"] = "dashboard.settings"
        for name in ("DATABASE_URL", "HANDRAIL_PUBLIC_URL"):
            os.environ.pop(name, None)
        os.mkdir(f"{home}/staticfiles")
        figures = measure(Path(home))
    if options.json:
        print(json.dumps({"files": FILES, "rounds": ROUNDS, "pages": figures}, indent=1))
        return
    print(f"{FILES:,} changed files, {ROUNDS} rounds; milliseconds of server time")
    print(f"{'page':<34}{'first':>8}{'p50':>8}{'max':>8}{'cpu':>8}{'kB':>7}")
    for name, found in figures.items():
        times = "".join(f"{found[column]:>8.0f}" for column in ("first_ms", "p50_ms", "max_ms", "cpu_ms"))
        print(f"{name:<34}{times}{found['kb']:>7.0f}")


def measure(home: Path) -> dict:
    """{page: {first_ms, p50_ms, max_ms, cpu_ms, kb}}; the first request starts the processes that colour and match."""
    import django  # after the environment is set: settings read it when they load

    django.setup()
    import logging

    from django.conf import settings
    from django.core.management import call_command
    from django.test import Client

    from bench.pages.rows import make

    logging.disable(logging.WARNING)
    settings.DEBUG = False
    call_command("migrate", verbosity=0)
    person, place = make(actions=20, workspaces=2)
    _fill(place, home)
    client = Client(headers={"host": "handrail.localhost:8000"})
    client.force_login(person)
    here = f"/w/bench/{place.key}/changes/?from=1&to=2"
    pages = {
        "1,000 files": here,
        "1,000 files, side by side": f"{here}&view=split",
        "one of them": f"{here}&path=src/7/file-0007.py",
        "a new file of 100,000 lines": f"{here}&path=new.txt",
        "its last lines": f"{here}&path=new.txt&line=99000",
        "one changed line of 100,000": f"{here}&path=changed.txt",
    }
    return {name: _timed(client, address) for name, address in pages.items()}


def _fill(place, home: Path):
    """Give the workspace's first two snapshots trees of a store of its own."""
    from workspaces.host import paths
    from workspaces.store import LocalTree, Store

    store = Store.create(paths.store_of(place.team_id))
    long = "".join(f"line {n}\n" for n in range(100_000))
    for number in (1, 2):
        tree = home / f"tree-{number}"
        for n in range(FILES):
            path = tree / "src" / str(n % 20) / f"file-{n:04}.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("".join(f"def f{n}_{k}(x):\n    return x + {k * number}\n" for k in range(1, 21)))
        (tree / "changed.txt").write_text(long if number == 1 else long.replace("line 70000\n", "another\n"))
        if number == 2:
            (tree / "new.txt").write_text(long)
        kept = store.snapshot(LocalTree(tree))
        place.snapshots.filter(number=number).update(tree=bytes.fromhex(kept.tree))


def _timed(client, address: str) -> dict:
    times, busy = [], []
    for _ in range(ROUNDS + 1):
        start, cpu = time.perf_counter(), time.process_time()
        response = client.get(address)
        times.append((time.perf_counter() - start) * 1000)
        busy.append((time.process_time() - cpu) * 1000)
        assert response.status_code == 200, (address, response.status_code)
    return {
        "first_ms": times[0],
        "p50_ms": statistics.median(times[1:]),
        "max_ms": max(times[1:]),
        "cpu_ms": statistics.median(busy[1:]),
        "kb": len(response.content) / 1000,
    }


if __name__ == "__main__":
    main()
