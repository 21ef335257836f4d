"""A snapshot after a restore reads only what the restore did not make, and what was changed since."""

import mmap
import os
import time

import pytest

from workspaces.store import LocalTree, Store
from workspaces.store.file_reader import Reader


@pytest.fixture
def store(tmp_path):
    return Store.create(tmp_path / "store")


@pytest.fixture
def stored(store, work):
    """The id of a snapshot of `work`, with two names of one file, a hole and an attribute."""
    os.link(work / "src" / "main.py", work / "src" / "deep" / "again")
    with open(work / "src" / "hole", "wb") as file:
        file.seek(3_000_000)
        file.write(b"end")
    os.setxattr(work / "src" / "deep" / "data.bin", "user.mark", b"1")
    return store.snapshot(LocalTree(work)).tree


@pytest.fixture
def made(store, stored, tmp_path, monkeypatch):
    """A tree just restored, the files of which are older than the racy window when it appears."""
    from workspaces.store.made import Made

    leave_stage = Made.leave_stage
    monkeypatch.setattr(Made, "leave_stage", lambda self: (time.sleep(0.1), leave_stage(self)))
    (tmp_path / "made").mkdir()
    tree = LocalTree(tmp_path / "made")
    store.restore(stored, tree, journal=tmp_path / "journal")
    time.sleep(0.1)
    return tree


@pytest.fixture
def reads(monkeypatch):
    """The paths of the files that a scan reads."""
    found = []
    row = Reader.row

    def reading(self, fd, name, path, *rest):
        found.append(path)
        return row(self, fd, name, path, *rest)

    monkeypatch.setattr(Reader, "row", reading)
    return found


def thorough(store, tree):
    return store.snapshot(LocalTree(tree.path), thorough=True).tree


def files_in(reads):
    return {path for path in reads if not path.endswith("link")}


def test_what_a_restore_made_is_not_read(store, stored, made, reads):
    assert store.snapshot(made).tree == stored
    # Moved into the tree, and given a second name: both move the ctime.
    assert files_in(reads) <= {"README.md", "src/main.py", "src/deep/again"}
    assert thorough(store, made) == stored
    assert "src/deep/data.bin" in reads


def test_the_next_snapshot_knows_it_by_its_stat(store, stored, made, reads):
    store.snapshot(made)
    reads.clear()
    assert store.snapshot(LocalTree(made.path)).tree == stored
    assert reads == []


@pytest.mark.parametrize("how", ["written", "mapped", "replaced", "attribute", "mode"])
def test_what_was_changed_since_is_read(store, stored, made, how):
    path = made.path / "src" / "deep" / "data.bin"
    before = path.stat()
    if how == "attribute":
        os.setxattr(path, "user.mark", b"2")
    elif how == "mode":
        path.chmod(0o640)
    elif how == "replaced":
        path.unlink()
        path.write_bytes(bytes(before.st_size))
    else:
        with open(path, "r+b") as file:
            if how == "mapped":
                with mmap.mmap(file.fileno(), 0) as mapping:
                    mapping[7:9] = b"zz"
            else:
                file.write(b"zz")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    taken = store.snapshot(made).tree
    assert taken != stored
    assert taken == thorough(store, made)


def test_a_fork_has_its_own_owner(store, stored, tmp_path, require):
    if os.geteuid() != 0:
        require("root", "only root gives files away")
    (tmp_path / "fork").mkdir()
    tree = LocalTree(tmp_path / "fork")
    store.restore(stored, tree, journal=tmp_path / "journal", owner=(1234, 1235))
    taken = store.snapshot(tree).tree
    assert store.entry(taken, b"src/deep/data.bin").uid == 1234
    assert taken == thorough(store, tree)


def test_what_is_inspected_is_read(store, stored, made):
    seen = set()
    store.snapshot(made, inspect=lambda path, data: seen.add(path))
    assert b"src/deep/data.bin" in seen


def test_what_a_collection_has_removed_is_stored_again(store, stored, made):
    store.release(stored)
    assert store.gc([], since=2e9).removed_objects
    taken = store.snapshot(made).tree
    assert taken == stored
    assert store.verify(full=True).problems == []
    assert len(store.read(taken, b"src/deep/data.bin")) == 300_000


def test_files_made_just_now_are_read(store, stored, tmp_path, reads, monkeypatch):
    (tmp_path / "now").mkdir()
    tree = LocalTree(tmp_path / "now")
    store.restore(stored, tree, journal=tmp_path / "journal")
    monkeypatch.setattr(tree.made, "_limit_ns", 0)
    assert store.snapshot(tree).tree == stored
    assert "src/deep/data.bin" in reads
