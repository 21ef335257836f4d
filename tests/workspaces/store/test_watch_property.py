"""Whatever a program does to a watched tree, a snapshot by watching is the one that a walk takes."""

import json
import os
import random
import subprocess
import sys
import tempfile

import pytest

from tests.workspaces.store.guests import Guest, only
from tests.workspaces.store.users import as_user
from workspaces.store import LocalTree, Store
from workspaces.store.guest.watched import GuestWatched
from workspaces.store.watch import Watched, opened

ROUNDS = int(os.environ.get("HANDRAIL_TEST_ROUNDS", 1))
OPERATIONS = 100_000 if ROUNDS >= 42 else 600 * ROUNDS
ENTRIES = 5_000 if ROUNDS > 1 else 400


@pytest.fixture
def big(tmp_path):
    """A tree of ENTRIES entries."""
    root = tmp_path / "work"
    for number in range(ENTRIES // 12):
        folder = root / f"d{number % 23}" / f"e{number}"
        folder.mkdir(parents=True)
        for name in range(10):
            (folder / f"f{name}").write_text(f"{number} {name}\n" * (name + 1))
    yield root
    subprocess.run(["chmod", "-R", "u+rwX", tmp_path], check=True)  # so that an ordinary user's pytest can remove it


@pytest.fixture(params=["by-the-snapshot", "ahead"])
def asking(request, monkeypatch):
    """When opened files are asked for writers: by a snapshot, which may leave most of them, or between snapshots."""
    is_ahead = request.param == "ahead"
    monkeypatch.setattr(opened, "MOST", 3 if is_ahead else 10**9)
    monkeypatch.setattr(opened, "FEW", 0 if is_ahead else 10**9)
    monkeypatch.setattr(opened, "AT_ONCE", 5)


@pytest.fixture
def watched(require, way, asking):
    found = Watched(proof_every=10**9)
    yield found
    found.close()


def program(tree, outside, seed):
    rights = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    command = [
        "unshare",
        *rights,
        "--mount",
        sys.executable,
        "-m",
        "tests.workspaces.store.writing_program",
        tree,
        outside,
        str(seed),
    ]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)


def ask(running, number):
    running.stdin.write(f"{number}\n")
    running.stdin.flush()
    return json.loads(running.stdout.readline())


@pytest.mark.timeout(600 * ROUNDS)
def test_an_ordinary_user_has_the_same(tmp_path, ordinary_user):
    tmp_path.chmod(0o777)
    outcome = as_user(ordinary_user, tmp_path, __file__, "-k", "equal and each-inode", "-o", "timeout=0")
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
    assert "2 passed" in outcome.stdout, outcome.stdout


@pytest.fixture
def quick_store(tmp_path):
    """A store in memory, where there is such a place: hundreds of snapshots need not wait for the disk."""
    where = "/dev/shm" if os.access("/dev/shm", os.W_OK) else tmp_path
    with tempfile.TemporaryDirectory(dir=where) as folder:
        yield Store.create(os.path.join(folder, "store"))


@pytest.mark.timeout(300 * ROUNDS)
def test_watched_and_walked_trees_are_equal(tmp_path, big, quick_store, watched, require, record_property):
    by_watching = LocalTree(big)
    by_watching.watched = watched
    compare(tmp_path, big, quick_store, by_watching, require, record_property)


@pytest.mark.timeout(300 * ROUNDS)
@pytest.mark.parametrize("kernel", ["Kernel", "Marks", "Inotify"])
def test_a_tree_that_is_watched_in_a_guest_is_equal(tmp_path, big, quick_store, require, record_property, kernel):
    guest = Guest(big, watched=GuestWatched(proof_every=10**9), code=only(kernel))
    try:
        compare(tmp_path, big, quick_store, guest.tree(), require, record_property)
    finally:
        guest.close()


def compare(tmp_path, big, store, by_watching, require, record_property):
    """Let a program change a tree in all its ways, and compare snapshots by watching with walks that read all."""
    outside, watched = tmp_path / "outside", by_watching.watched
    outside.mkdir()
    seed = int(os.environ.get("HANDRAIL_TEST_SEED", 36))
    chance, left, counts, snapshots = random.Random(seed), OPERATIONS, {}, 0
    by_walking = LocalTree(big, cache=tmp_path / "cache")
    by_walking.is_mapped = False  # which reads everything and needs no sync
    with program(big, outside, seed) as running:
        ways = json.loads(running.stdout.readline())
        store.snapshot(by_watching)
        if watched.how == "off":
            require("fanotify", watched.why)
        while left > 0:
            number = min(left, chance.choice([1, 1, 3, 20, 100, 400]))
            for way, count in ask(running, number).items():
                counts[way] = counts.get(way, 0) + count
            left -= number
            walked = store.snapshot(by_walking, thorough=True)
            done = store.restore(walked.tree, by_watching, journal=tmp_path / "journal")
            assert (done.created, done.changed, done.removed) == (0, 0, 0)  # it finds the tree as the walk did
            taken = store.snapshot(by_watching)
            assert [change.path for change in store.diff(taken.tree, walked.tree)] == []
            assert taken.tree == walked.tree
            assert (taken.entries, taken.bytes) == (walked.entries, walked.bytes)
            assert [one.path for one in taken.skipped] == [one.path for one in walked.skipped]
            assert taken.looked_at.watched > 0
            snapshots += 1
        running.stdin.close()
    assert counts.keys() == set(ways)
    assert len(ways) >= 20
    record_property("snapshots", snapshots)
