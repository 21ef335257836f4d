"""Objects are read as git has them, damaged ones are refused as git refuses them, and the work for all has an end."""

import os
import random
import subprocess

import pytest

from workspaces.git_files import committed, objects
from workspaces.git_files.objects import MAX_WORK, Missing, Objects
from workspaces.git_files.work import Spent, Work
from workspaces.store import LocalTree, Store
from workspaces.store.files import LocalFiles


def git(folder, *args, feed=None) -> str:
    done = subprocess.run(["git", *args], cwd=folder, input=feed, capture_output=True, check=True)
    return done.stdout.decode().strip()


@pytest.fixture
def packed(tmp_path):
    """A repository with 40 versions of a file in one pack, most as deltas; {their name: content}."""
    git(tmp_path, "init", "-q", "work")
    work, pick = tmp_path / "work", random.Random(3)
    lines, blobs = [b"%032x\n" % pick.getrandbits(128) for _ in range(300)], {}
    for number in range(40):
        lines[pick.randrange(300)] = b"version %d\n" % number
        content = b"".join(lines)
        sha = git(work, "hash-object", "-w", "--stdin", feed=content)
        git(work, "update-index", "--add", "--cacheinfo", f"100644,{sha},f{number}")
        blobs[bytes.fromhex(sha)] = content
    git(work, "-c", "user.name=T", "-c", "user.email=t@x", "commit", "-qm", "x")
    git(work, "repack", "-adfq")
    root = os.open(work, os.O_RDONLY)
    yield work, root, blobs
    os.close(root)


def test_packed_objects_are_those_of_git(packed):
    _, root, blobs = packed
    read = Objects(LocalFiles(root))
    assert {sha: read.read(sha) for sha in blobs} == {sha: (b"blob", content) for sha, content in blobs.items()}


def test_the_work_for_all_blobs_of_a_tree_has_an_end(packed, tmp_path, monkeypatch):
    folder, root, blobs = packed
    size = sum(map(len, blobs.values()))
    limited = Objects(LocalFiles(root), Work(size // 2))
    with pytest.raises(Spent):
        [limited.read(sha) for sha in blobs]
    with pytest.raises(Spent):
        limited.read(next(iter(blobs)))
    monkeypatch.setattr(committed, "MAX_WORK", size)
    store = Store.create(tmp_path / "store")
    tree = committed._Tree(store, store.snapshot(LocalTree(folder)).tree)
    found = [tree.blob(sha) for sha in blobs]
    assert found[0] == next(iter(blobs.values()))
    assert found[-1] == tree.blob(next(iter(blobs))) == b""


def varint(number: int) -> bytes:
    found = b""
    while number > 127:
        found, number = found + bytes([number & 127 | 128]), number >> 7
    return found + bytes([number])


BASE = b"0123456789"
DAMAGED = {
    "a step of zero": (len(BASE), 3, b"\0\3abc"),
    "many steps of zero": (len(BASE), 3, b"\3abc" + b"\0" * 1000),
    "a copy of nothing": (len(BASE), 3, b"\3abc\x90\0"),
    "a copy from beyond the base": (len(BASE), 3, b"\x91\x64\3"),
    "a copy over the end of the base": (len(BASE), 5, b"\x91\x08\5"),
    "text that is cut short": (len(BASE), 5, b"\5abc"),
    "more than it says": (len(BASE), 3, b"\4abcd"),
    "less than it says": (len(BASE), 4, b"\3abc"),
    "another base": (len(BASE) + 1, 3, b"\3abc"),
}


@pytest.mark.parametrize("what", DAMAGED)
def test_a_delta_that_git_would_not_apply_is_damaged(what):
    of_base, size, steps = DAMAGED[what]
    with pytest.raises(Missing):
        objects._patched(BASE, varint(of_base) + varint(size) + steps)


def test_a_delta_is_applied():
    delta = varint(len(BASE)) + varint(8) + b"\x91\2\3" + b"\2ab" + b"\x90\3"
    assert objects._patched(BASE, delta) == b"234ab012"


def test_a_number_without_an_end_is_damaged():
    with pytest.raises(Missing):
        objects._varint(b"\xff" * 1000, 0)


def test_a_delta_counts_by_its_steps(packed):
    _, root, blobs = packed
    counted = Work(MAX_WORK)
    taken = []
    counted.take = lambda size=0: taken.append(size)
    read = Objects(LocalFiles(root), counted)
    for sha in blobs:
        read.read(sha)
    assert sum(taken) > 2 * sum(map(len, blobs.values()))
