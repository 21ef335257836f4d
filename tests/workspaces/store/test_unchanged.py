"""A file is only taken for unchanged when that is certain."""

import ctypes
import mmap
import os
import subprocess
import sys
import tempfile
import time

import pytest

from workspaces.store import LocalTree, Store, stat_cache
from workspaces.store import repository as store_module
from workspaces.store.scan import RACY_NS

# For what a guest has of its own: its clock, and readings that nobody here can step into.
HERE = pytest.mark.parametrize("tree_of", ["local"], indirect=True)
_libc = ctypes.CDLL(None, use_errno=True)


def reads_of(store, tree, **options):
    """Take a snapshot and return the files whose content was read for it."""
    seen = set()
    store.snapshot(tree, inspect=lambda path, data: seen.add(path), **options)
    return seen


ALL = {b"README.md", b"src/main.py", b"src/deep/data.bin"}


def test_settled_files_are_not_read_again(store, tree, settle):
    settle()
    assert reads_of(store, tree) >= ALL
    assert reads_of(store, tree) == set()


def test_a_thorough_snapshot_reads_everything(store, tree, settle):
    settle()
    store.snapshot(tree)
    assert reads_of(store, tree, thorough=True) >= ALL
    assert reads_of(store, tree) == set()


def test_only_what_changed_is_read(store, tree, work, settle):
    settle()
    store.snapshot(tree)
    settle()
    (work / "src" / "main.py").write_text("changed")
    settle()
    assert reads_of(store, tree) == {b"src/main.py"}


@HERE
def test_files_from_within_the_racy_window_are_read_again(store, tree, work, monkeypatch):
    # The snapshot seems to have begun when the file was written: it could have changed again within that tick.
    born = (work / "README.md").stat().st_ctime_ns
    time.sleep(0.05)
    monkeypatch.setattr(store_module.time, "time_ns", lambda: born + RACY_NS - 1)
    store.snapshot(tree)
    monkeypatch.undo()
    assert b"README.md" in reads_of(store, tree)
    assert reads_of(store, tree) == set()


@HERE
def test_a_clock_that_was_set_back_makes_nothing_trusted(store, tree, monkeypatch, settle):
    settle()
    monkeypatch.setattr(store_module.time, "time_ns", lambda: 10**9)
    store.snapshot(tree)
    assert reads_of(store, tree) >= ALL


def test_the_same_size_and_mtime_do_not_hide_a_change(store, tree, work, settle):
    settle()
    first = store.snapshot(tree).tree
    found = (work / "README.md").stat()
    with open(work / "README.md", "r+b") as file:
        file.write(b"# Other")
    os.utime(work / "README.md", ns=(found.st_atime_ns, found.st_mtime_ns))
    second = store.snapshot(tree).tree
    assert (store.read(first, b"README.md"), store.read(second, b"README.md")) == (b"# Words\n", b"# Other\n")


def test_an_inode_that_was_used_again_is_read(store, tree, work, settle):
    settle()
    store.snapshot(tree)
    found = (work / "README.md").stat()
    (work / "README.md").unlink()
    (work / "README.md").write_bytes(b"# Drows\n")
    os.utime(work / "README.md", ns=(found.st_atime_ns, found.st_mtime_ns))
    assert b"README.md" in reads_of(store, tree)


def test_a_store_through_a_mapping_is_never_missed(store, tree, work):
    (work / "mapped").write_bytes(bytes(8192))
    with open(work / "mapped", "r+b") as file, mmap.mmap(file.fileno(), 8192) as mapping:
        for number in range(1, 30):
            mapping[5000] = number
            taken = store.snapshot(tree)
            assert store.read(taken.tree, b"mapped", 5000, 1) == bytes([number])
            if number % 3 == 0:
                time.sleep(0.03)


def test_a_writer_through_a_mapping_in_another_process_is_never_missed(store, tree, work):
    (work / "mapped").write_bytes(bytes(4096))
    program = (
        "import mmap, sys\n"
        "file = open(sys.argv[1], 'r+b'); mapping = mmap.mmap(file.fileno(), 4096)\n"
        "for line in sys.stdin: mapping[7] = int(line); print('done', flush=True)\n"
    )
    command = [sys.executable, "-c", program, work / "mapped"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as writer:
        for number in range(1, 25):
            writer.stdin.write(f"{number}\n")
            writer.stdin.flush()
            assert writer.stdout.readline() == "done\n"
            taken = store.snapshot(tree)
            assert store.read(taken.tree, b"mapped", 7, 1) == bytes([number])
            time.sleep(0.025 * (number % 2))
        writer.stdin.close()


def test_where_ctime_is_not_trusted_everything_is_read(store, settle, require):
    if not os.access("/dev/shm", os.W_OK):
        require("tmpfs", "there is no /dev/shm to write to")
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        with open(os.path.join(folder, "file"), "w") as file:
            file.write("x")
        settle()
        assert [reads_of(store, LocalTree(folder)) for _ in range(2)] == [{b"file"}, {b"file"}]


@HERE
def test_a_file_that_changes_at_every_reading_is_marked(store, tree, work):
    path = work / "README.md"

    def change(seen, data):
        if seen == b"README.md":
            with open(path, "ab") as file:
                file.write(b"more\n")

    taken = store.snapshot(tree, inspect=change)
    assert [one.path for one in taken.skipped] == [b"README.md"]
    assert "it changed during each" in taken.skipped[0].reason
    assert store.entry(taken.tree, b"README.md").flags == 2
    again = store.snapshot(tree)
    assert (again.skipped, store.read(again.tree, b"README.md")) == ([], path.read_bytes())


@HERE
def test_a_file_that_changes_once_while_it_is_read_is_read_again(store, tree, work):
    path, changed = work / "README.md", []

    def change(seen, data):
        if seen == b"README.md" and not changed:
            changed.append(path.write_text("all new"))

    taken = store.snapshot(tree, inspect=change)
    assert (taken.skipped, store.read(taken.tree, b"README.md")) == ([], b"all new")


def test_files_that_vanish_meanwhile_are_no_error(store, tree, work):
    for number in range(300):
        (work / f"f{number:03}").write_text(str(number))

    def vanish(seen, data):
        for path in list(work.glob("f*"))[:20]:
            path.unlink()

    taken = store.snapshot(tree, inspect=vanish)
    assert taken.skipped == []
    assert {b"README.md", b"empty", b"link", b"src"} <= {entry.name for entry in store.ls(taken.tree)}


@pytest.mark.usefixtures("ordinary_user")
def test_files_that_may_not_be_read_are_listed_and_never_harmed(tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    program = """
import os, sys
from workspaces.store import LocalTree, Store
os.setgroups([]); os.setgid(1234); os.setuid(1234)
home = sys.argv[1]
work = os.path.join(home, "work")
os.mkdir(work)
open(os.path.join(work, "closed"), "w").write("mine")
os.chmod(os.path.join(work, "closed"), 0)
os.mkdir(os.path.join(work, "locked")); open(os.path.join(work, "locked", "x"), "w").write("x")
os.chmod(os.path.join(work, "locked"), 0)
open(os.path.join(work, "open"), "w").write("1")
store = Store.create(os.path.join(home, "store"))
taken = store.snapshot(LocalTree(work))
print(taken.entries, [(one.path, one.reason) for one in taken.skipped])
open(os.path.join(work, "open"), "w").write("2")
os.mkdir(os.path.join(work, "fixed")); open(os.path.join(work, "fixed", "y"), "w").write("y")
os.chmod(os.path.join(work, "fixed"), 0o555)
before = store.snapshot(LocalTree(work))
store.restore(taken.tree, LocalTree(work), journal=os.path.join(home, "journal"))
print(open(os.path.join(work, "open")).read(), sorted(os.listdir(work)))
store.restore(before.tree, LocalTree(work), journal=os.path.join(home, "journal"))
print(oct(os.stat(os.path.join(work, "fixed")).st_mode), store.compare(before.tree, LocalTree(work)).differ)
"""
    os.chown(home, 1234, 1234)
    for folder in (home, *home.parents):
        if folder != tmp_path.parents[-1]:
            os.chmod(folder, os.stat(folder).st_mode | 0o055)
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", program, home], capture_output=True, text=True)
    assert done.stdout.splitlines() == [
        "1 [(b'closed', 'permission denied'), (b'locked', 'permission denied')]",
        "1 ['closed', 'locked', 'open']",
        "0o40555 []",
    ], done.stderr
    assert (home / "work" / "closed").read_text() == "mine"
    assert Store.open(home / "store").verify(full=True).ok


@HERE
def test_the_cache_of_a_large_tree_is_not_written_for_a_few_changes(store, tree, work, settle, monkeypatch):
    monkeypatch.setattr(stat_cache, "LARGE", 3)
    settle()
    store.snapshot(tree)
    [cache] = store.blobs.caches.iterdir()
    before = cache.read_bytes()
    (work / "src" / "main.py").write_text("changed")
    settle()
    assert reads_of(store, tree) == {b"src/main.py"}
    assert cache.read_bytes() == before
    assert reads_of(store, tree) == {b"src/main.py"}
    (work / "src" / "deep" / "data.bin").write_bytes(os.urandom(5 << 20))
    settle()
    assert reads_of(store, tree) == {b"src/main.py", b"src/deep/data.bin"}
    assert cache.read_bytes() != before
    assert reads_of(store, tree) == set()
