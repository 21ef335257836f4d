"""A store with keys: what it keeps is encrypted, everything works as without, and a wrong key is refused in words."""

import itertools
import json
import os
import subprocess
import sys

import pytest

from tests.support import CHECKOUT
from workspaces.store import LocalTree, Store, StoreError
from workspaces.store.blobs import at
from workspaces.store.blobs.moving import copy_to_bucket
from workspaces.store.errors import Damaged, NoKey
from workspaces.store.index.rebuild import reindex
from workspaces.store.progress import Watch
from workspaces.store.sealing import Key, Keys, written

WORDS = b"what nobody else may read\n"


@pytest.fixture
def key():
    return Key.fresh()


@pytest.fixture
def sealed(address, key):
    return Store.create(address, keys=Keys([key]))


@pytest.fixture
def tree(work):
    (work / "words").write_bytes(WORDS * 50_000)
    (work / "named-so").write_bytes(WORDS)
    return LocalTree(work)


def stored_bytes(store, packs) -> bytes:
    """All that is stored of content and of the index."""
    if store.blobs.shared:
        client = store.blobs.client
        return b"".join([*packs(store), *(client.get(f"index/{found.name}")[0] for found in client.ls("index"))])
    return b"".join(packs(store))


def test_nothing_is_readable_and_everything_comes_back(sealed, tree, packs, tmp_path):
    done = sealed.snapshot(tree)
    kept = stored_bytes(sealed, packs)
    for plain in (WORDS, b"named-so", b"main.py", bytes.fromhex(done.tree)):
        assert plain not in kept
    target = tmp_path / "again"
    target.mkdir()
    sealed.restore(done.tree, LocalTree(target), journal=tmp_path / "journal")
    assert (target / "words").read_bytes() == WORDS * 50_000
    assert sealed.compare(done.tree, LocalTree(target)).differ == []
    assert (sealed.verify(full=True).ok, sealed.verify().ok) == (True, True)


def test_equal_contents_are_stored_once(sealed, tree, work):
    sealed.snapshot(tree)
    (work / "copy").write_bytes((work / "src/deep/data.bin").read_bytes())
    assert sealed.snapshot(tree).added_bytes < 5_000


def test_the_ids_are_those_of_a_store_without_keys(sealed, tree, tmp_path):
    assert Store.create(tmp_path / "plain").snapshot(tree).tree == sealed.snapshot(tree).tree


@pytest.mark.parametrize("given", [None, Keys([Key.fresh()])], ids=["no key", "another key"])
def test_a_wrong_key_is_refused_in_words(sealed, address, tree, key, given):
    sealed.snapshot(tree)
    with pytest.raises(NoKey, match=f"is encrypted with the key {key.id.hex()}, which is not among the given ones"):
        Store.open(address, keys=given)


def test_who_was_open_without_the_key_writes_nothing_plain(address, tree, work, key):
    before = Store.create(address)
    before.snapshot(tree)
    Store.open(address, keys=Keys([key])).snapshot(LocalTree(work / "src"))
    (work / "late").write_bytes(WORDS)
    with pytest.raises(NoKey):
        before.snapshot(tree)


def test_older_keys_read_what_they_wrote(sealed, address, tree, work, key, packs):
    first = sealed.snapshot(tree)
    newer = Key.fresh()
    both = Store.open(address, keys=Keys([newer, key]))
    (work / "late").write_bytes(os.urandom(1000))
    second = both.snapshot(tree)
    assert b"".join(both.stream(first.tree, b"words")) == WORDS * 50_000
    assert both.verify(full=True).ok
    with pytest.raises(NoKey, match=newer.id.hex()):
        Store.open(address, keys=Keys([key]))
    alone = Store.open(address, keys=Keys([newer]))
    with pytest.raises(NoKey, match=key.id.hex()):
        list(alone.stream(second.tree, b"words"))


def test_what_was_kept_before_there_was_a_key_stays_readable(address, tree, work, key):
    first = Store.create(address).snapshot(tree)
    with_key = Store.open(address, keys=Keys([key]))
    (work / "late").write_bytes(WORDS)
    second = with_key.snapshot(tree)
    assert b"".join(with_key.stream(first.tree, b"words")) == WORDS * 50_000
    assert b"".join(with_key.stream(second.tree, b"late")) == WORDS
    assert with_key.verify(full=True).ok


def test_a_collection_keeps_what_is_needed_encrypted(sealed, address, tree, work, key, packs):
    sealed.snapshot(tree, hold=0)
    (work / "words").unlink()
    kept = sealed.snapshot(tree, hold=0)
    collected = Store.open(address, keys=Keys([key]))
    collected.gc([kept.tree])
    assert collected.verify(full=True).ok
    assert WORDS not in stored_bytes(collected, packs)
    assert b"".join(collected.stream(kept.tree, b"named-so")) == WORDS


def test_a_repair_needs_the_key(sealed, address, tree, key):
    done = sealed.snapshot(tree)
    with pytest.raises(NoKey):
        reindex(address)
    made = reindex(address, keys=Keys([key]))
    assert (made.trees, made.dropped) == (1, 0)
    again = Store.open(address, keys=Keys([key]))
    assert b"".join(again.stream(done.tree, b"named-so")) == WORDS
    with pytest.raises(NoKey):
        Store.open(address)


def test_a_changed_block_is_named(tmp_path, tree, key):
    """Also by who has no key: the checksum is that of the encrypted bytes."""
    store = Store.create(tmp_path / "store", keys=Keys([key]))
    done = store.snapshot(tree)
    [pack] = (tmp_path / "store" / "packs").iterdir()
    data = bytearray(pack.read_bytes())
    data[len(data) // 2] ^= 1
    pack.write_bytes(data)
    damaged = Store.open(tmp_path / "store", keys=Keys([key]))
    assert not damaged.verify(full=True).ok
    paths = (b"words", b"src/deep/data.bin", b"named-so")
    with pytest.raises(Damaged):
        list(itertools.chain.from_iterable(damaged.stream(done.tree, path) for path in paths))


@pytest.mark.parametrize("before", [(), "key"], ids=["plain", "encrypted"])
def test_a_copy_into_a_bucket_is_encrypted(in_bucket, tmp_path, tree, key, before, packs):
    keys = Keys([key])
    plain = Store.create(tmp_path / "store", keys=keys if before else None)
    done = plain.snapshot(tree)
    address = in_bucket()
    copy_to_bucket(at(tmp_path / "store", keys=keys), at(address, keys=keys), Watch())
    copied = Store.open(address, keys=keys)
    assert WORDS not in stored_bytes(copied, packs)
    assert copied.verify(full=True).ok
    assert b"".join(copied.stream(done.tree, b"words")) == WORDS * 50_000
    with pytest.raises(NoKey):
        Store.open(address)


def test_the_command_line_takes_the_keys(sealed, address, tree, key, tmp_path):
    tree_id = sealed.snapshot(tree).tree
    file = tmp_path / "keys"
    file.write_text(written([Key.fresh(), key]))

    def engine(*words):
        command = [sys.executable, "-m", "workspaces.store", *map(str, words)]
        return subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=False)

    assert engine("--keys", file, "cat", address, tree_id, "named-so").stdout == WORDS.decode()
    assert json.loads(engine("--keys", file, "verify", "--full", address).stdout)["ok"] is True
    refused = engine("cat", address, tree_id, "named-so")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr.startswith(f"NoKey: the store at {address} is encrypted with the key {key.id.hex()}")
    file.write_text("short\n")
    refused = engine("--keys", file, "cat", address, tree_id, "named-so")
    assert "has no keys: write one a line, 32 bytes in base64, newest first" in refused.stderr
    with pytest.raises(StoreError):
        Store.open(tmp_path / "none", keys=Keys([key]))
