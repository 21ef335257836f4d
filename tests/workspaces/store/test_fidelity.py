"""What people and tools put into a folder comes back exactly, judged by a comparer that shares no code."""

import os
import shutil
import socket
import struct
import subprocess

import pytest

from tests.workspaces.store.compare_trees import differing
from workspaces.store import LocalTree
from workspaces.store.depth import MAX_DEPTH
from workspaces.store.journal import empty


@pytest.fixture
def same_after_a_restore(store, work, tmp_path, tree_of):
    """Store the tree, restore it elsewhere, and return what the two differ in."""

    def check():
        taken = store.snapshot(tree_of(work))
        out = tmp_path / "out"
        out.mkdir()
        store.restore(taken.tree, tree_of(out), journal=tmp_path / "journal")
        found = differing(work, out)
        assert store.snapshot(tree_of(out)).tree == taken.tree
        return found

    return check


SAME = ([], set())


def test_modes_times_and_empty_folders(work, same_after_a_restore):
    for mode in (0o000, 0o400, 0o644, 0o755, 0o777, 0o711):
        (work / f"mode {mode:o}").write_text("x")
        (work / f"mode {mode:o}").chmod(mode)
        (work / f"folder {mode:o}").mkdir(mode=0o700)
        (work / f"folder {mode:o}").chmod(mode)
    (work / "shared").mkdir()
    (work / "shared").chmod(0o3777)
    for number, time in enumerate((0, 1, -1, -1_500_000_001, 1_234_567_890_123_456_789, 2**33 * 10**9 + 7)):
        (work / f"time {number}").write_text("x")
        os.utime(work / f"time {number}", ns=(0, time))
    os.utime(work / "empty", ns=(0, 987_654_321))
    os.utime(work, ns=(0, 123_456_789))
    assert same_after_a_restore() == SAME


def test_names_of_every_kind(work, same_after_a_restore):
    root = os.fsencode(work)
    for name in (b"\xff\xfe", b"new\nline", b"n" * 255, b" ", b"-rf", b"*", b"\\", b"quo'\"te", "é".encode(),
                 "e\u0301".encode(),
                 b"Case", b"case", b"CASE", b"\x01\x7f", b"a\tb", b".hidden", b"...", b"\xed\xa0\x80"):  # fmt: skip
        with open(os.path.join(root, name), "wb") as file:
            file.write(name)
    deep = root
    for _ in range(30):
        deep = os.path.join(deep, b"d" * 100)
        os.mkdir(deep)
    assert same_after_a_restore() == SAME


@pytest.fixture
def deep(work, tmp_path):
    """`deep(count, name)`: so many folders below each other, and a file in the last one."""

    def make(count, name):
        at = os.open(work, os.O_RDONLY)
        for _ in range(count):
            os.mkdir(name, dir_fd=at)
            below = os.open(name, os.O_RDONLY, dir_fd=at)
            os.close(at)
            at = below
        os.close(os.open("bottom", os.O_WRONLY | os.O_CREAT, dir_fd=at))
        os.close(at)

    yield make
    fd = os.open(tmp_path, os.O_RDONLY)
    empty(fd)  # shutil and pytest do not get to the end of it
    os.close(fd)


@pytest.mark.parametrize(("count", "name"), [(100, "d" * 200), (700, "d")])
def test_trees_deeper_than_paths_reach_and_python_recurses(work, store, tmp_path, tree_of, deep, count, name):
    deep(count, name)
    taken = store.snapshot(tree_of(work))
    assert (taken.skipped, taken.entries) == ([], 8 + count)
    (tmp_path / "out").mkdir()
    out = tree_of(tmp_path / "out")
    store.restore(taken.tree, out, journal=tmp_path / "journal")
    assert store.compare(taken.tree, out, full=True).differ == []
    (tmp_path / "empty").mkdir()
    nothing = store.snapshot(tree_of(tmp_path / "empty")).tree
    store.restore(nothing, out, journal=tmp_path / "journal")
    assert os.listdir(tmp_path / "out") == []
    assert store.verify(full=True).ok


def test_folders_that_are_nested_too_deeply_are_listed(work, store, deep):
    deep(MAX_DEPTH + 40, "d")
    taken = store.snapshot(LocalTree(work))
    deepest = b"/".join([b"d"] * (MAX_DEPTH + 1))
    assert [tuple(one) for one in taken.skipped] == [(deepest, f"nested deeper than {MAX_DEPTH} folders")]


def test_symlinks_of_every_kind(work, same_after_a_restore):
    for name, target in (
        ("dangling", "nowhere"),
        ("absolute", "/etc/passwd"),
        ("loop", "loop"),
        ("up", "../../.."),
        ("folder link", "src"),
        ("long", "x" * 4000),
        ("odd", "a\nb"),
    ):
        (work / name).symlink_to(target)
        os.utime(work / name, ns=(0, 42), follow_symlinks=False)
    os.symlink(b"\xff", os.path.join(os.fsencode(work), b"bytes"))
    assert same_after_a_restore() == SAME


def test_hard_links_within_and_between_folders(work, same_after_a_restore):
    os.link(work / "README.md", work / "src" / "again")
    os.link(work / "README.md", work / "empty" / "and again")
    (work / "a").write_text("same content, own file")
    (work / "b").write_text("same content, own file")
    os.link(work / "a", work / "a2")
    assert same_after_a_restore() == SAME


def test_extended_attributes_and_acls(work, same_after_a_restore):
    os.setxattr(work / "README.md", "user.text", b"value")
    os.setxattr(work / "README.md", "user.binary", bytes(range(256)))
    os.setxattr(work / "README.md", "user.empty", b"")
    os.setxattr(work / "src", "user.folder", b"too")
    # user::rw-, user:1000:r--, group::r--, mask::r--, other::---
    entries = [(1, 6, 2**32 - 1), (2, 4, 1000), (4, 4, 2**32 - 1), (16, 4, 2**32 - 1), (32, 0, 2**32 - 1)]
    acl = struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries)
    os.setxattr(work / "src" / "main.py", "system.posix_acl_access", acl)
    os.setxattr(work / "src" / "deep", "system.posix_acl_default", acl)
    assert same_after_a_restore() == SAME


def test_a_fork_for_somebody_else_belongs_to_them(work, store, tmp_path, tree_of, require):
    if os.geteuid() != 0:
        require("user", "only root gives files to others")
    for path in (work, *work.rglob("*")):
        os.chown(path, 1234, 1234, follow_symlinks=False)
    os.chown(work / "empty", 0, 50)
    (work / "tool").write_text("#!/bin/sh\n")
    os.chown(work / "tool", 1234, 50)
    (work / "tool").chmod(0o4755)
    taken = store.snapshot(tree_of(work)).tree
    out = tmp_path / "out"
    out.mkdir()
    store.restore(taken, tree_of(out), journal=tmp_path / "journal", owner=(5678, 5679))
    owners = {path.name: (path.lstat().st_uid, path.lstat().st_gid) for path in (out, *out.rglob("*"))}
    assert {owners.pop("empty"), owners.pop("tool")} == {(0, 50), (5678, 50)}
    assert set(owners.values()) == {(5678, 5679)}
    assert (out / "tool").stat().st_mode & 0o7777 == 0o4755  # still a program of the owner's own
    assert store.compare(taken, tree_of(out), full=True, owner=(5678, 5679)).differ == []
    assert store.compare(taken, tree_of(out), full=True).differ != []


def test_owners_when_we_may(work, same_after_a_restore):
    if os.geteuid() == 0:
        os.chown(work / "README.md", 1234, 2345)
        os.chown(work / "link", 1234, 2345, follow_symlinks=False)
        os.chown(work / "src" / "deep", 4321, 5432)
    assert same_after_a_restore() == SAME


def test_sparse_files_keep_their_holes(work, same_after_a_restore):
    with open(work / "sparse", "wb") as file:
        file.seek(50 << 20)
        file.write(b"data" * 2000)
        file.seek(60 << 20)
        file.write(b"more")
        file.truncate(100 << 20)
    with open(work / "only a hole", "wb") as file:
        file.truncate(5 << 20)
    with open(work / "small hole", "wb") as file:
        file.seek(64 << 10)
        file.write(b"x")
    assert same_after_a_restore() == SAME


def test_ten_sparse_gigabytes_cost_nothing(work, store, tmp_path, tree_of):
    with open(work / "huge", "wb") as file:
        file.truncate(10 << 30)
    taken = store.snapshot(tree_of(work))
    assert taken.bytes > 10 << 30
    assert taken.added_bytes < 1 << 20
    assert store.read(taken.tree, b"huge", 5 << 30, 4) == bytes(4)
    (tmp_path / "out").mkdir()
    store.restore(taken.tree, tree_of(tmp_path / "out"), journal=tmp_path / "journal")
    found = (tmp_path / "out" / "huge").stat()
    assert (found.st_size, found.st_blocks) == (10 << 30, 0)


def test_fifos_are_kept_and_sockets_are_listed(work, store, tmp_path, tree_of):
    os.mkfifo(work / "pipe", 0o622)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(os.fspath(work / "socket"))
        taken = store.snapshot(tree_of(work))
        again = store.snapshot(tree_of(work))
    expected = [(b"socket", "a socket has no content to keep")]
    assert ([tuple(one) for one in taken.skipped], [tuple(one) for one in again.skipped]) == (expected, expected)
    (work / "socket").unlink()
    (tmp_path / "out").mkdir()
    store.restore(taken.tree, tree_of(tmp_path / "out"), journal=tmp_path / "journal")
    paths, links = differing(work, tmp_path / "out")
    assert (paths, links) == ([b""], set())  # the time of the folder, which has just lost its socket


def test_repositories_worktrees_and_submodules_are_plain_files(work, tmp_path, same_after_a_restore):
    git = ["git", "-c", "user.name=A", "-c", "user.email=a@b", "-c", "protocol.file.allow=always"]
    inner, module = work / "inner", tmp_path / "module"
    for repo in (inner, module):
        subprocess.run([*git, "init", "-q", repo], check=True)
        (repo / "file").write_text("content")
        subprocess.run([*git, "add", "-A"], cwd=repo, check=True)
        subprocess.run([*git, "commit", "-q", "-m", "one"], cwd=repo, check=True)
    subprocess.run([*git, "worktree", "add", "-q", work / "worktree"], cwd=inner, check=True)
    subprocess.run([*git, "submodule", "--quiet", "add", module, "sub"], cwd=inner, check=True)
    (inner / ".git" / "index.lock").touch()
    assert same_after_a_restore() == SAME


def test_setuid_is_kept_in_the_store_and_set_only_where_it_is_safe(work, store, tmp_path, tree_of):
    (work / "tool").write_text("#!/bin/sh\n")
    (work / "tool").chmod(0o4755)
    taken = store.snapshot(tree_of(work))
    assert store.entry(taken.tree, b"tool").mode == 0o4755
    (tmp_path / "out").mkdir()
    if os.geteuid() == 0:
        # The folder of somebody else must not receive a program that runs as root.
        os.chown(tmp_path / "out", 1234, 1234)
    store.restore(taken.tree, tree_of(tmp_path / "out"), journal=tmp_path / "journal")
    expected = 0o755 if os.geteuid() == 0 else 0o4755
    assert (tmp_path / "out" / "tool").stat().st_mode & 0o7777 == expected


def test_large_files_come_back_and_an_append_stores_the_append(work, store, tmp_path, tree_of):
    big = work / "log"
    with open(big, "wb") as file:
        for _ in range(40):
            file.write(os.urandom(1 << 20))
    first = store.snapshot(tree_of(work))
    with open(big, "ab") as file:
        file.write(b"one more line\n")
    second = store.snapshot(tree_of(work))
    assert second.added_bytes < 3 << 20
    shutil.copytree(work, tmp_path / "copy", symlinks=True)
    with open(big, "r+b") as file:
        file.seek(20 << 20)
        file.write(b"changed in the middle")
    third = store.snapshot(tree_of(work))
    assert third.added_bytes < 5 << 20
    assert store.read(second.tree, b"log", 40 << 20) == b"one more line\n"
    assert b"".join(store.stream(first.tree, b"log")) == (tmp_path / "copy" / "log").read_bytes()[: 40 << 20]
