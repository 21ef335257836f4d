"""The files of a pod are watched by the server of its files, which has no rights there but to ask by inotify."""

import pytest

from tests.support.waiting import until
from workspaces.store import Store
from workspaces.store.guest.watched import GuestWatched

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
# Programs of the pod can kill the server of its files, which has the same user.
KILL = "for each in /proc/[0-9]*; do grep -qa 'tree[.]pyz' $each/cmdline && kill -9 ${each#/proc/}; done; true"


@pytest.fixture
def store(tmp_path):
    return Store.create(tmp_path / "store")


def watched_tree(run):
    tree = run.driver.tree(run.owner)
    tree.watched = GuestWatched()
    return tree


def test_only_what_has_changed_is_looked_at(pod, store):
    run = pod(runtime_class="runc")
    run.sh("mkdir -p a/b c; for n in $(seq 50); do echo $n > a/b/$n; echo $n > c/$n; done; sleep 0.1")
    tree = watched_tree(run)
    first = store.snapshot(tree)
    if tree.watched.how == "off":
        assert tree.watched.why == "the file times of this file system do not prove that a file is unchanged"
        pytest.skip(tree.watched.why)
    assert (tree.watched.how, first.looked_at) == ("guest", (103, 0))
    assert store.snapshot(tree).looked_at.walked == 0
    run.sh("echo changed > c/7; ln c/8 a/another; echo by another name >> a/another; mkdir -p a/new/er; mv a/b moved")
    run.leave(f"python3 -c '{MAPPED}'")
    until(lambda: run.sh("ls /tmp/stored-65")[1] == 0)
    taken = store.snapshot(tree)
    assert store.read(taken.tree, b"c/9", 0, 1) == b"A"
    assert store.read(taken.tree, b"c/7") == b"changed\n"
    assert store.read(taken.tree, b"c/8") == b"8\nby another name\n"
    assert taken.tree == store.snapshot(run.driver.tree(run.owner), thorough=True).tree
    until(lambda: run.sh("touch /tmp/next; ls /tmp/stored-66")[1] == 0)
    mapped = store.snapshot(tree)  # of what raised no event
    assert (mapped.looked_at.walked, store.read(mapped.tree, b"c/9", 0, 1)) == (0, b"B")
    run.sh(f"{KILL}; echo while nobody watched > c/10")
    after = store.snapshot(tree)
    assert (after.looked_at.watched, store.read(after.tree, b"c/10")) == (0, b"while nobody watched\n")
    assert store.snapshot(tree).looked_at.walked == 0
