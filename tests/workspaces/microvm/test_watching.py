"""The files of a guest are watched by its own kernel: its server is root there, and the agent is not."""

from workspaces.store import Store
from workspaces.store.guest.watched import GuestWatched
from workspaces.store.watch.fanotify import Kernel

MAPPED = """
import mmap, os, time
with open("c/9", "r+b") as file:
    mapping = mmap.mmap(file.fileno(), 0)
for number in (65, 66):
    mapping[0] = number
    open(f"/tmp/stored-{number}", "x").close()
    while not os.path.exists("/tmp/next"):
        time.sleep(0.05)
time.sleep(600)
"""
STORED = "until [ -e /tmp/stored-{} ]; do sleep 0.1; done"


def test_only_what_has_changed_is_looked_at(guest, tmp_path):
    store, watched = Store.create(tmp_path / "store"), GuestWatched()

    def snapshot(**how):
        tree = guest.tree()
        tree.watched = watched
        return store.snapshot(tree, **how)

    guest.sh("rm -rf *; mkdir -p a/b c; for n in $(seq 50); do echo $n > a/b/$n; echo $n > c/$n; done; sleep 0.1")
    assert snapshot().looked_at.watched == 0
    assert (watched.how, watched.why) == ("guest", Kernel.why)
    assert snapshot().looked_at.walked == 0
    guest.leave(f"python3 -c '{MAPPED}'")
    guest.sh(STORED.format(65) + "; ln c/8 a/another; echo by another name >> a/another; mv a/b moved")
    taken = snapshot()
    assert store.read(taken.tree, b"c/9", 0, 1) == b"A"
    assert store.read(taken.tree, b"c/8") == b"8\nby another name\n"
    assert taken.tree == store.snapshot(guest.tree(), thorough=True).tree
    guest.sh("touch /tmp/next; " + STORED.format(66))
    mapped = snapshot()  # of what raised no event
    assert (mapped.looked_at.walked, store.read(mapped.tree, b"c/9", 0, 1)) == (0, b"B")
    store.restore(taken.tree, guest.tree(), journal=tmp_path / "journal")
    assert store.compare(taken.tree, guest.tree(), full=True).differ == []
    assert (snapshot().tree, snapshot(prove=True).tree) == (taken.tree, taken.tree)
    assert watched.alarms == 0
