"""One flipped bit anywhere is found and named with what it hurts, and the rest stays readable."""

import os
import random
import shutil

import pytest

from workspaces.store import LocalTree, Store, StoreError
from workspaces.store.index.rebuild import reindex


@pytest.fixture
def filled(tmp_path):
    """A store with three trees and a few packs' worth of files, and what each file holds."""
    chance = random.Random(3)
    work = tmp_path / "work"
    store, contents = Store.create(tmp_path / "store"), {}
    for number in range(3):
        folder = work / f"folder{number}"
        folder.mkdir(parents=True)
        for name in range(6):
            (folder / f"f{name}").write_bytes(chance.randbytes(chance.choice([10, 2000, 700_000])))
        tree = store.snapshot(LocalTree(work), hold=0).tree
        contents[tree] = {
            os.fsencode(path.relative_to(work)): path.read_bytes() for path in work.rglob("*") if path.is_file()
        }
    return tmp_path / "store", contents


def flip(path, at, bit=1):
    data = bytearray(path.read_bytes())
    data[at] ^= bit
    path.write_bytes(data)


def unreadable(path, contents):
    """Return the files of each tree that cannot be read any more; none may read as something else."""
    store, lost = Store.open(path), set()
    for tree, files in contents.items():
        for name, expected in files.items():
            try:
                assert store.read(tree, name) == expected
            except StoreError:
                lost.add((tree, name))
    return lost


def named(problems):
    """Return what a check says is hurt: files, or folders with all that is in them."""
    return {hurt for problem in problems for hurt in problem.hurts}


def covers(hurts, lost):
    tree, path = lost
    return any(tree == at and (path == name or not name or path.startswith(name + b"/")) for at, name in hurts)


@pytest.mark.parametrize("seed", range(12))
def test_a_flipped_bit_in_a_pack_is_found_named_and_contained(filled, seed):
    path, contents = filled
    packs = sorted((path / "packs").iterdir())
    chance = random.Random(seed)
    pack = chance.choice(packs)
    flip(pack, chance.randrange(pack.stat().st_size), 1 << chance.randrange(8))
    found = Store.open(path).verify(full=True)
    assert found.ok is False
    lost = unreadable(path, contents)
    hurts = named(found.problems)
    assert all(covers(hurts, one) for one in lost), (found.problems, lost)
    # A block is the most that one bit can take along.
    assert len({name for _, name in lost}) < 18
    assert all(pack.name in problem.where for problem in found.problems if problem.hurts)


def test_a_flipped_bit_in_the_index_is_found_and_made_good(filled):
    path, contents = filled
    segments = sorted((path / "index").iterdir())
    for number, segment in enumerate(segments):
        flip(segment, segment.stat().st_size - 5 - number)
    found = Store.open(path).verify()
    assert {f"index/{segment.name}" for segment in segments} <= {problem.where for problem in found.problems}
    done = reindex(path)
    assert (done.trees, done.dropped) == (3, 0)
    assert Store.open(path).verify(full=True).problems == []
    assert unreadable(path, contents) == set()


@pytest.mark.parametrize("at", [0, 40, 100, -3])
def test_a_flipped_bit_in_the_head_is_refused_and_made_good(filled, at):
    path, contents = filled
    flip(path / "head", at)
    with pytest.raises(StoreError, match=r"head is damaged|has format version"):
        Store.open(path)
    reindex(path)
    assert Store.open(path).verify(full=True).problems == []
    assert unreadable(path, contents) == set()


def test_a_lost_head_and_index_are_made_anew(filled, tmp_path):
    path, contents = filled
    (path / "head").unlink()
    shutil.rmtree(path / "index")
    (path / "index").mkdir()
    reindex(path)
    assert unreadable(path, contents) == set()
    store = Store.open(path)
    assert store.snapshot(LocalTree(tmp_path / "work")).tree in contents


def test_what_was_collected_does_not_come_back_in_pieces(filled):
    path, contents = filled
    store = Store.open(path)
    last = list(contents)[-1]
    store.gc([last])
    reindex(path)
    assert Store.open(path).verify(full=True).problems == []
    assert unreadable(path, {last: contents[last]}) == set()


def test_a_flipped_bit_in_a_stat_cache_only_costs_time(filled, tmp_path):
    path, contents = filled
    for cache in (path / "caches").iterdir():
        flip(cache, cache.stat().st_size // 2)
    assert Store.open(path).snapshot(LocalTree(tmp_path / "work")).tree in contents


def test_a_flipped_bit_in_the_format_is_refused(filled):
    path, _ = filled
    size = (path / "format").stat().st_size
    for at in range(0, size, 7):
        flip(path / "format", at)
        try:
            Store.open(path)
        except StoreError:
            pass  # most; one in the store's own id only makes the stat caches foreign
        flip(path / "format", at)
    assert Store.open(path).verify().ok


def test_a_pack_that_was_cut_short_or_lost_is_named(filled):
    path, contents = filled
    pack = max((path / "packs").iterdir())
    os.truncate(pack, pack.stat().st_size - 1000)
    found = Store.open(path).verify()
    assert "bytes long" in found.problems[0].what
    assert found.problems[0].where == f"packs/{pack.name}"
    pack.unlink()
    found = Store.open(path).verify()
    assert found.ok is False
    assert {tree for tree, _ in named(found.problems)} <= set(contents)
