"""A snapshot that is read back: every byte is there, or it is said what is missing or damaged."""

import os
import stat

import pytest

from workspaces.store import Damaged, LocalTree, Store, scan


@pytest.fixture
def tree(tmp_path):
    folder = tmp_path / "tree"
    (folder / "a" / "b" / "c").mkdir(parents=True)
    (folder / "a" / "b" / "c" / "deep").write_text("deep")
    (folder / "large").write_bytes(os.urandom(3_000_000))
    (folder / "link").symlink_to("large")
    os.mkfifo(folder / "pipe")
    os.mknod(folder / "socket", stat.S_IFSOCK | 0o600)
    return LocalTree(folder)


@pytest.fixture
def store(address):
    return Store.create(address)


def test_a_whole_snapshot_lacks_nothing(store, tree):
    assert store.read_back(store.snapshot(tree).tree) == []


def test_what_no_snapshot_can_hold_is_named(store, tree, monkeypatch):
    monkeypatch.setattr(scan, "MAX_DEPTH", 2)  # as for folders that lie deeper than a path can name
    assert store.read_back(store.snapshot(tree).tree) == [b"a/b/c"]


def test_a_damaged_byte_is_found(tree, tmp_path):
    store = Store.create(tmp_path / "store")  # test_bucket.py damages a pack there
    taken = store.snapshot(tree).tree
    pack = max((tmp_path / "store" / "packs").iterdir(), key=lambda path: path.stat().st_size)
    data = bytearray(pack.read_bytes())
    data[len(data) // 2] ^= 1
    pack.write_bytes(data)
    with pytest.raises(Damaged):
        Store.open(tmp_path / "store").read_back(taken)
