"""A restore shares blocks with a live tree where the file system can, and neither sees what happens to the other."""

import os
import shutil
import subprocess
import time

import pytest

from tests.support.reflinks import mounted_with_reflinks
from tests.workspaces.store.compare_trees import differing
from workspaces.store import LocalTree, Store


@pytest.fixture(params=["reflinks", "none"])
def place(tmp_path, request, require):
    """A folder on a file system with reflinks, and one of this machine's, which may have none."""
    if request.param == "none":
        yield tmp_path
        return
    with mounted_with_reflinks(tmp_path, require) as mounted:
        yield mounted


@pytest.fixture
def origin(place):
    root = place / "origin"
    (root / "d" / "e").mkdir(parents=True)
    for name in ("a", "d/b", "d/e/c"):
        (root / name).write_bytes(os.urandom(400_000))
    (root / "small").write_bytes(b"x")
    (root / "d" / "empty").touch()
    (root / "link").symlink_to("d/b")
    os.link(root / "a", root / "d" / "again")
    (root / "d" / "b").chmod(0o751)
    with open(root / "hole", "wb") as file:
        file.seek(3_000_000)
        file.write(b"end")
    for at, folders, files in os.walk(root):
        for name in (*folders, *files):
            os.utime(os.path.join(at, name), ns=(10**18, 10**18), follow_symlinks=False)
    return root


@pytest.fixture
def store(place):
    return Store.create(place / "store")


def fork(place, store, tree, lender):
    made = place / "fork"
    made.mkdir()
    free = shutil.disk_usage(place).free
    store.restore(tree, LocalTree(made), journal=place / "journal", lender=LocalTree(lender))
    subprocess.run(["sync", "-f", place], check=True)
    return made, free - shutil.disk_usage(place).free


def settled(store, origin):
    """Return the tree once the stat cache trusts its files, as it does not those that were written just now."""
    time.sleep(0.1)
    return store.snapshot(LocalTree(origin)).tree


def test_a_fork_is_the_same_and_takes_no_room(place, store, origin):
    tree = settled(store, origin)
    made, taken = fork(place, store, tree, origin)
    assert differing(origin, made) == ([], set())
    assert store.snapshot(LocalTree(made), thorough=True).tree == tree
    if place.name == "mounted":
        assert taken < 400_000 + 100_000  # the file with two names is written
    (made / "d" / "b").write_bytes(b"changed")
    with open(origin / "d" / "e" / "c", "r+b") as file:
        file.write(b"changed too")
    assert store.snapshot(LocalTree(made), thorough=True).tree != tree
    assert (origin / "d" / "b").stat().st_size == 400_000
    with open(made / "d" / "e" / "c", "rb") as file:
        assert file.read(11) == store.read(tree, b"d/e/c", 0, 11)


def test_a_fork_is_whole_after_another_process_has_collected_what_the_lender_was(place, store, origin):
    time.sleep(0.1)
    tree = store.snapshot(LocalTree(origin), hold=0).tree
    (origin / "d" / "new").write_bytes(b"not kept")
    time.sleep(0.1)
    store.snapshot(LocalTree(origin), hold=0)
    assert Store.open(place / "store").gc([tree]).removed_objects
    made, _ = fork(place, store, tree, origin)
    assert store.snapshot(LocalTree(made), thorough=True).tree == tree


@pytest.mark.parametrize("how", ["written", "replaced", "a link", "moved", "gone", "time set back"])
def test_what_has_changed_since_is_not_lent(place, store, origin, how):
    tree = settled(store, origin)
    file = origin / "d" / "b"
    before = file.stat()
    content = store.read(tree, b"d/b")
    if how in ("written", "time set back"):
        with open(file, "r+b") as out:
            out.write(b"changed")
    elif how in ("replaced", "a link"):
        file.unlink()
        file.write_bytes(bytes(400_000)) if how == "replaced" else file.symlink_to("e/c")
    elif how == "moved":
        (origin / "d" / "e" / "c").replace(file)
    else:
        shutil.rmtree(origin)
    if how == "time set back":
        os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    made, _ = fork(place, store, tree, origin)
    assert (made / "d" / "b").read_bytes() == content
    assert store.snapshot(LocalTree(made), thorough=True).tree == tree
