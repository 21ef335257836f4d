"""A mounted snapshot of 10,000 files beside restic's own mount, and an overlay over it beside a copy of its files.

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
from workspaces.store import LocalTree, Store

if TYPE_CHECKING:
    from bench.store.__main__ import Bench

STORE = [sys.executable, "-m", "workspaces.store"]
ENTRIES, LIMIT, READY_LIMIT, WAIT_S = 10_000, 0.5, 0.02, 60.0
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
    _rehearse(bench, tree)


def _rehearse(bench: "Bench", tree: str) -> None:
    """Lay the files of a rehearsal as an overlay, and copy them as before; then read what a program left of both."""
    from workspaces.runner import rehearsal_overlay

    store, scratch = Store.open(bench.path("mounted-store")), bench.path("rehearsal")
    found: dict[str, list[float]] = {name: [] for name in ("laid", "copied", "read", "copy read")}

    def timed(name: str, work: Callable[[], object]) -> None:
        begun = time.perf_counter()
        work()
        found[name].append(time.perf_counter() - begun)

    copy = LocalTree(bench.path("rehearsal-copy"), cache=bench.path("rehearsal-scan"))
    for _ in bench.turns():
        bench.fresh("rehearsal", "rehearsal-copy")
        copy.path.mkdir()
        try:
            timed("laid", lambda: _laid(rehearsal_overlay, store, tree, scratch))
            timed("read", lambda: store.snapshot(rehearsal_overlay.tree(scratch), thorough=True))
        finally:
            rehearsal_overlay.lift(scratch)
        timed("copied", lambda: store.restore(tree, copy, journal=bench.path("rehearsal-journal")))
        timed("copy read", lambda: store.snapshot(copy, thorough=True))
    medians = {name: statistics.median(seconds) for name, seconds in found.items()}
    bench.row("rehearsal ready to run", medians["laid"], "a copy", medians["copied"], READY_LIMIT)
    bench.row("what nothing changed, read after it", medians["read"], "a copy", medians["copy read"], 1.0)


def _laid(rehearsal_overlay, store: Store, tree: str, scratch: Path) -> None:
    if not rehearsal_overlay.lay(store, tree, scratch, (os.getuid(), os.getgid()), []):
        raise SystemExit("no overlay could be laid: it needs root, FUSE and overlayfs, and a tree without hard links")


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
