"""A watched tree: what a snapshot costs that has nothing or one file to look at, and what watching costs meanwhile."""

import os
import resource
import statistics
import time
from pathlib import Path

from bench.store import tree as trees
from workspaces.store import LocalTree, Store
from workspaces.store.watch import Watched

IDLE_S = 20.0


def measure(bench) -> None:
    store = Store.open(bench.path("store"))
    tree = LocalTree(bench.tree, cache=bench.path("watch-cache"))
    store.snapshot(tree, hold=0)
    before = _resident_mb()
    tree.watched = Watched()
    store.snapshot(tree, hold=0)
    if tree.watched.how == "off":
        raise SystemExit(f"nothing is watched: {tree.watched.why}")
    grown = _resident_mb() - before
    _against_peers(bench, store, tree)
    used = _idle()
    print(f"{tree.watched.how}: {tree.watched.why}")
    print(f"idle: {used * 60 / IDLE_S:.3f} s of processor a minute; the system's other files were written meanwhile")
    bench.row("watching, memory (MB)", grown, "25 MB", 25.0, 1.0)
    bench.row("watching, idle (s of processor a minute)", used * 60 / IDLE_S, "0.05 s", 0.05, 1.0)
    tree.watched.close()


def _against_peers(bench, store: Store, tree: LocalTree) -> None:
    edited = bench.tree / "node_modules" / "react" / "index.js"
    content = edited.read_bytes()

    def engine() -> float:
        begun = bench.clock()
        store.snapshot(tree, hold=0)
        return bench.clock() - begun

    def walk() -> float:
        begun = bench.clock()
        trees.walk(os.fspath(bench.tree))
        return bench.clock() - begun

    def edit(run):
        def edited_first() -> float:
            edited.write_bytes(content + os.urandom(8))
            time.sleep(0.05)
            return run()

        return edited_first

    def unwatched() -> float:
        begun = bench.clock()
        store.snapshot(LocalTree(bench.tree, cache=bench.path("watch-cache")), hold=0)
        return bench.clock() - begun

    engine()
    found = bench.medians(ours=engine, walk=walk, unwatched=unwatched)
    bench.row("nothing changed, watched (engine)", found["ours"], "scandir + lstat", found["walk"], 0.05)
    bench.row("nothing changed, watched (engine)", found["ours"], "the same, not watched", found["unwatched"], 0.4)
    git = edit(lambda: bench.seconds("git add -A && git write-tree"))
    found = bench.medians(ours=edit(engine), git=git, unwatched=edit(unwatched))
    bench.row("one file changed, watched (engine)", found["ours"], "git add + write-tree", found["git"], 0.1)
    bench.row("one file changed, watched (engine)", found["ours"], "the same, not watched", found["unwatched"], 0.4)
    edited.write_bytes(content)


def put_back(bench, store: Store, taken: str, rsync: float) -> None:
    """Put 10 changed files back in a watched tree, beside the seconds that rsync took for the same."""
    tree = LocalTree(bench.tree, cache=bench.path("watch-cache"))
    tree.watched = Watched()
    store.snapshot(tree, hold=0)

    def ours() -> float:
        bench.edit_ten()
        begun = bench.clock()
        done = store.restore(taken, tree, journal=bench.path("journal"))
        bench.run(["sync", "-f", bench.scratch])
        if done.changed < 10:
            raise SystemExit(f"{done.changed} files were put back")
        return bench.clock() - begun

    found = bench.medians(ours=ours)
    bench.row("put 10 changed files back, watched (engine)", found["ours"], "rsync -a --delete", rsync, 0.2)
    tree.watched.close()


def _resident_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 1e6


def _idle() -> float:
    used = []
    for _ in range(3):
        begun = time.process_time()
        time.sleep(IDLE_S / 3)
        used.append(time.process_time() - begun)
    return statistics.median(used) * 3
