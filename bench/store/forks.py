"""A fork: a restore into an empty folder and its first snapshot, which knows what the restore has made."""

import shutil
import time

from workspaces.store import LocalTree, Store


def measure(bench) -> None:
    store, journal = Store.open(bench.path("store")), bench.path("fork-journal")
    origin = store.snapshot(LocalTree(bench.tree, cache=bench.path("watch-cache")), hold=0).tree

    def made() -> tuple[LocalTree, float]:
        folder = bench.path("fork")
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        tree = LocalTree(folder, cache=bench.path("fork-cache"))
        tree.cache.unlink(missing_ok=True)
        begun = bench.clock()
        store.restore(origin, tree, journal=journal)
        spent = bench.clock() - begun
        time.sleep(0.1)
        return tree, spent

    def restore() -> float:
        return made()[1]

    def first_snapshot() -> float:
        return snapshot(made()[0])

    def read_again() -> float:
        return snapshot(LocalTree(made()[0].path, cache=bench.path("fork-cache")))

    def snapshot(tree: LocalTree) -> float:
        begun = bench.clock()
        store.snapshot(tree, hold=0)
        return bench.clock() - begun

    found = bench.medians(restore=restore, snapshot=first_snapshot, read=read_again)
    fork = found["restore"] + found["snapshot"]
    bench.row("fork (engine)", fork, "restore, all files read again", found["restore"] + found["read"], 1.0)
    bench.row("first snapshot of a fork (engine)", found["snapshot"], "all files read", found["read"], 0.5)
