"""A collection takes what nobody needs, and nothing else."""

import os
import time

import pytest

from workspaces.store import LocalTree, Missing, Store, StoreError


def fill(work, name, size=400_000):
    (work / name).write_bytes(os.urandom(size))


def test_content_of_a_dropped_tree_is_collected(store, tree, work, tmp_path):
    fill(work, "first")
    first = store.snapshot(tree, hold=0).tree
    (work / "first").unlink()
    fill(work, "second", 50_000)
    second = store.snapshot(tree, hold=0).tree
    done = store.gc([second])
    assert (done.trees, done.removed_objects) == (1, 3)
    assert done.freed_bytes > 300_000
    with pytest.raises(Missing):
        store.ls(first)
    assert store.verify(full=True).ok
    (tmp_path / "out").mkdir()
    store.restore(second, LocalTree(tmp_path / "out"), journal=tmp_path / "journal")
    assert store.compare(second, LocalTree(tmp_path / "out"), full=True).differ == []


def test_a_snapshot_after_a_collection_stores_again_what_was_taken(store, tree, work):
    first = store.snapshot(tree, hold=0).tree
    store.gc([])
    assert store.verify(full=True).objects == 0
    again = store.snapshot(tree)
    assert again.tree == first
    assert store.read(first, b"README.md") == b"# Words\n"
    assert store.verify(full=True).ok


def test_held_and_recent_trees_stay(store, tree, work):
    before = store.snapshot(tree, hold=0)
    fill(work, "more")
    held = store.snapshot(tree, hold=60).tree
    store.gc([])
    assert store.read(held, b"README.md") == b"# Words\n"
    store.release(held)
    fill(work, "even more")
    recent = store.snapshot(tree, hold=0).tree
    store.gc([], since=0.0)
    assert store.read(recent, b"README.md") == b"# Words\n"
    store.gc([])
    assert store.verify().objects == 0
    assert before.tree != held


def test_an_unknown_tree_to_keep_changes_nothing(store, tree):
    taken = store.snapshot(tree, hold=0).tree
    with pytest.raises(StoreError, match="nothing was removed"):
        store.gc(["ab" * 32])
    assert store.read(taken, b"README.md") == b"# Words\n"


def test_another_process_reads_on_after_a_collection(store, tree, work, address):
    fill(work, "first")
    store.snapshot(tree, hold=0)
    (work / "first").unlink()
    kept = store.snapshot(tree, hold=0).tree
    reader = Store.open(address)
    store.gc([kept])
    assert reader.read(kept, b"README.md") == b"# Words\n"


def test_usage_says_what_a_tree_holds_alone(store, tree, work):
    first = store.snapshot(tree).tree
    fill(work, "more")
    second = store.snapshot(tree).tree
    told = store.usage([first, second])
    assert told.alone[first] < 2_000
    assert 400_000 < told.alone[second] < 410_000
    assert told.reach[second] - told.reach[first] > 390_000
    assert told.bytes >= told.reach[second]


def test_what_removing_several_would_free_counts_what_they_share(store, tree, work):
    kept = store.snapshot(tree).tree
    fill(work, "more")
    one = store.snapshot(tree).tree
    (work / "little").write_text("x")
    two = store.snapshot(tree).tree
    assert store.freed([one], [kept, two]) < 2_000
    assert 400_000 < store.freed([one, two], [kept]) < 410_000
    assert store.freed([kept, one, two], []) > 700_000
    assert store.freed([], [kept]) == 0


def test_another_process_takes_nothing_for_known_that_was_collected(store, tree, work, address):
    taken = store.snapshot(tree, hold=0).tree
    other = Store.open(address)
    assert other.compare(taken, tree).differ == []
    store.gc([])
    again = other.snapshot(tree)
    assert (again.tree, other.compare(taken, tree).differ) == (taken, [])
    assert store.verify(full=True).ok


def test_a_forecast_says_what_the_next_collection_frees_and_what_waits(store, tree, work):
    fill(work, "kept", 600_000)
    kept = store.snapshot(tree, hold=0).tree
    fill(work, "small", 100_000)
    small = store.snapshot(tree, hold=0).tree
    (work / "small").unlink()
    fill(work, "large", 300_000)
    large = store.snapshot(tree, hold=0).tree
    (work / "large").unlink()
    told = store.forecast([small, large], [kept])
    before = store.usage().bytes
    done = store.gc([kept])
    assert abs(done.freed_bytes - told.freed) < 3_000
    assert told.freed + told.waiting > 395_000
    assert abs((before - store.usage().bytes) - told.freed) < 10_000
    assert store.forecast([], [kept]) == (0, 0, 0)


def test_a_forecast_counts_apart_what_is_held_for_an_hour(store, tree, work):
    fill(work, "kept", 300_000)
    kept = store.snapshot(tree, hold=0).tree
    fill(work, "fresh", 900_000)
    fresh = store.snapshot(tree, hold=3600).tree
    told = store.forecast([fresh], [kept])
    assert (told.freed, told.held > 890_000) == (0, True)
    assert store.gc([kept]).freed_bytes == 0
    later = store.forecast([fresh], [kept], time.time() + 7200)
    assert (later.freed > 890_000, later.held) == (True, 0)
    store.release(fresh)
    assert abs(store.gc([kept]).freed_bytes - told.held) < 3_000


def test_a_rewriting_collection_leaves_no_byte_of_what_is_gone(store, tree, work, packs):
    fill(work, "kept", 600_000)
    kept = store.snapshot(tree, hold=0).tree
    secret = os.urandom(5_000)
    (work / "secret").write_bytes(secret)
    gone = store.snapshot(tree, hold=0).tree
    (work / "secret").unlink()
    assert store.gc([kept, gone], rewrite=True).removed_objects == 0
    assert any(secret[:200] in pack for pack in packs(store))
    store.gc([kept])
    done = store.gc([kept], rewrite=True)
    assert not any(secret[:200] in pack for pack in packs(store))
    assert done.objects == store.verify(full=True).objects
    assert store.read(kept, b"kept") == (work / "kept").read_bytes()
