"""A mounted snapshot of 10,000 files beside restic's own mount: mount, `grep -r` over all files, unmount.

Each round mounts anew, so that neither has anything in memory but what the page cache has of its packs. What is
measured is the `grep`, from the first name to the last byte.
"""

import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from bench.store import tree as trees

if TYPE_CHECKING:
    from bench.store.__main__ import Bench

STORE = [sys.executable, "-m", "workspaces.store"]
ENTRIES, LIMIT, WAIT_S = 10_000, 0.5, 60.0
WORD = "no file has this word"


def measure(bench: "Bench") -> None:
    source = trees.copies(bench.tree, bench.path("mounted-tree"), ENTRIES)
    bench.fresh("mounted-store", "mounted-restic", "restic-cache")
    bench.env["RESTIC_REPOSITORY"] = str(bench.path("mounted-restic"))
    bench.run([*STORE, "init", bench.path("mounted-store")])
    taken = bench.run([*STORE, "snapshot", bench.path("mounted-store"), source])
    bench.run(["restic", "init"])
    bench.run(["restic", "backup", "-q", source])
    tree = taken.split('"tree": "')[1].split('"')[0]
    place = bench.path("mounted")
    place.mkdir(exist_ok=True)
    works = {
        "ours": ([*STORE, "mount", bench.path("mounted-store"), tree, place], place),
        "restic": (["restic", "mount", place], place / "snapshots" / "latest"),
    }
    first, again = {}, {}
    for name, (command, at) in works.items():
        rounds = [_round(bench, command, place, at) for _ in bench.turns()]
        first[name], again[name] = (statistics.median(found) for found in zip(*rounds, strict=True))
    bench.row("grep -r of a mounted snapshot", first["ours"], "restic mount", first["restic"], LIMIT)
    bench.row("the same once more", again["ours"], "restic mount", again["restic"], LIMIT)


def _round(bench: "Bench", command: list, place: Path, at: Path) -> tuple[float, float]:
    """Return the seconds of a first `grep -r` over a mount and of a second one."""
    options = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with subprocess.Popen([*map(os.fspath, command)], env=bench.env, **options) as server:
        _until(lambda: os.path.ismount(place) and at.exists())
        try:
            return _grep(at), _grep(at)
        finally:
            server.send_signal(signal.SIGINT)
            server.wait(WAIT_S)
            _until(lambda: not os.path.ismount(place))


def _grep(at: Path) -> float:
    begun = time.perf_counter()
    done = subprocess.run(["grep", "-r", "-c", "-F", WORD, f"{at}/"], capture_output=True)
    seconds = time.perf_counter() - begun
    lines = done.stdout.count(b"\n")
    if done.stderr or not lines:
        raise SystemExit(f"grep read {lines} files: {done.stderr[-300:]!r}")
    return seconds


def _until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_S
    while not true():
        if time.monotonic() > deadline:
            raise SystemExit("a mount did not come or go in time")
        time.sleep(0.02)
