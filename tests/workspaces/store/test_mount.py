"""A mounted snapshot is a folder like the one that it was taken of, and lasts as long as somebody serves it."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.support import CHECKOUT
from tests.support.mounts import NO_FUSE
from tests.workspaces.store.compare_trees import describe, differing
from workspaces.store import Missing, Store, StoreError
from workspaces.store.mount import process
from workspaces.store.mount.snapshot_folder import SnapshotFolder
from workspaces.store.mount.unmounting import unmount
from workspaces.store.sealing import Key, Keys

pytestmark = pytest.mark.skipif(NO_FUSE != "", reason=NO_FUSE)
WAIT_S = 30


@pytest.fixture
def mounted(address, tmp_path):
    """`with mounted(tree, *options) as (folder, process)`: the command line serves a tree meanwhile."""
    place = tmp_path / "mounted"

    @contextmanager
    def mount(tree, *options):
        place.mkdir(exist_ok=True)
        command = [sys.executable, "-m", "workspaces.store", "mount", address, tree, place, *options]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        with subprocess.Popen([*map(os.fspath, command)], cwd=CHECKOUT, **pipes) as process:
            try:
                line = process.stdout.readline()
                assert line, process.stderr.read()
                assert json.loads(line) == {"mounted": str(place), "tree": tree}
                yield place, process
            finally:
                process.terminate()
                process.wait(WAIT_S)
                assert not os.path.ismount(place)

    return mount


def fill(work):
    """Add to the tree what a plain copy easily loses."""
    for mode in (0o000, 0o444, 0o755, 0o4711):
        (work / f"mode {mode:o}").write_text(f"{mode}")
        (work / f"mode {mode:o}").chmod(mode)
    for number, at in enumerate((0, -1_500_000_001, 1_234_567_890_123_456_789, 2**33 * 10**9 + 7)):
        (work / f"time {number}").write_text("x")
        os.utime(work / f"time {number}", ns=(0, at))
    for name in (b"\xff\xfe", b"new\nline", b"n" * 255, b" ", b"-rf", "é".encode()):
        with open(os.path.join(os.fsencode(work), name), "wb") as file:
            file.write(name)
    os.link(work / "README.md", work / "src" / "again")
    os.link(work / "README.md", work / "once more")
    os.symlink("x" * 4000, work / "long")
    os.symlink(b"\xff/nowhere", os.fsencode(work / "broken"))
    os.mkfifo(work / "fifo")
    os.setxattr(work / "README.md", "user.note", b"\0\xff" * 50)
    os.setxattr(work / "src", "user.of a folder", b"")
    os.utime(work / "empty", ns=(0, 987_654_321))
    os.utime(work, ns=(0, 123_456_789))


def test_nothing_differs_from_the_folder_that_was_stored(work, store, tree_of, mounted):
    fill(work)
    tree = store.snapshot(tree_of(work)).tree
    with mounted(tree) as (place, _):
        assert differing(work, place) == ([], set())
        assert os.lstat(place / "once more").st_nlink == 3
        assert store.snapshot(tree_of(place)).tree == tree


def test_nothing_can_be_changed(work, store, tree_of, mounted):
    with mounted(store.snapshot(tree_of(work)).tree) as (place, _):
        changes = [
            lambda: (place / "new").write_text("x"),
            lambda: (place / "README.md").write_text("x"),
            lambda: (place / "README.md").unlink(),
            lambda: (place / "README.md").chmod(0o777),
            lambda: (place / "README.md").rename(place / "other"),
            lambda: os.setxattr(place / "README.md", "user.x", b"x"),
        ]
        for change in changes:
            with pytest.raises(OSError, match="Read-only file system"):
                change()


def test_large_and_sparse_files_are_read_at_any_place(work, store, tree_of, mounted):
    chance = random.Random(1)
    large = chance.randbytes(9_000_000)
    (work / "large").write_bytes(large)
    with open(work / "sparse", "wb") as file:
        file.seek(5_000_000_000)
        file.write(b"end")
    with mounted(store.snapshot(tree_of(work)).tree) as (place, _):
        with open(place / "large", "rb", buffering=0) as file:
            for _ in range(40):
                start, length = chance.randrange(len(large)), chance.randrange(1, 3_000_000)
                assert os.pread(file.fileno(), length, start) == large[start : start + length]
        assert (place / "large").read_bytes() == large
        with open(place / "sparse", "rb") as file:
            assert os.fstat(file.fileno()).st_size == 5_000_000_003
            assert os.pread(file.fileno(), 10, 4_999_999_998) == b"\0\0end"


def test_a_collection_keeps_what_is_mounted_and_takes_it_afterwards(work, store, tree_of, mounted, address):
    tree = store.snapshot(tree_of(work), hold=0).tree
    with mounted(tree) as (place, _):
        before = describe(work)
        assert store.gc([], since=time.time() + 60).trees == 1
        assert describe(place) == before
    if store.blobs.shared:  # the hold lasts a quarter of an hour longer
        store.release(tree)
    assert store.gc([], since=time.time() + 60).trees == 0
    with pytest.raises(Missing):
        Store.open(address).root(tree)


def test_what_was_collected_cannot_be_mounted(work, store, tree_of, mounted):
    tree = store.snapshot(tree_of(work), hold=0).tree
    store.gc([], since=time.time() + 60)
    with pytest.raises(AssertionError, match="does not hold"), mounted(tree):
        pass


@pytest.mark.parametrize("how", ["terminate", "interrupt", "hang up", "end of input", "umount"])
def test_it_ends_cleanly(work, store, tree_of, mounted, how):
    with mounted(store.snapshot(tree_of(work)).tree, "--until-end-of-input") as (place, process):
        in_use = os.open(place / "README.md", os.O_RDONLY)
        assert os.read(in_use, 100) == (work / "README.md").read_bytes()
        signals = {"terminate": signal.SIGTERM, "interrupt": signal.SIGINT, "hang up": signal.SIGHUP}
        if how in signals:
            process.send_signal(signals[how])
        elif how == "end of input":
            process.stdin.close()
        else:
            os.close(in_use)
            subprocess.run(["umount", place], check=True)
        assert process.wait(WAIT_S) == 0
        if how != "umount":
            with suppress(OSError):  # nobody answers any more
                os.close(in_use)
        assert not os.path.ismount(place)
        assert os.listdir(place) == []


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_what_nobody_serves_any_more_is_unmounted(work, store, tree_of, address, tmp_path, how):
    place = tmp_path / "place"
    place.mkdir()
    served = process.start(address, store.snapshot(tree_of(work)).tree, place)
    served.send_signal(how)  # SIGTERM: it may be between its last answer and its own unmount
    if how == signal.SIGKILL:
        served.wait(WAIT_S)
        with pytest.raises(OSError, match="not connected"):
            os.stat(place)
    unmount(place)
    assert str(place) not in Path("/proc/self/mounts").read_text()
    process.end(served, place)


def test_paths_can_be_left_out_and_owners_changed(work, store, tree_of, mounted, tmp_path):
    (tmp_path / "without").write_bytes(b"README.md\0src/deep")
    os.chown(work / "src" / "main.py", 77, 78)
    options = ("--without", tmp_path / "without", "--owner", "1234", "1235")
    with mounted(store.snapshot(tree_of(work)).tree, *map(str, options)) as (place, _):
        assert sorted(os.listdir(place)) == ["empty", "link", "src"]
        assert os.listdir(place / "src") == ["main.py"]
        with pytest.raises(FileNotFoundError):
            os.stat(place / "README.md")
        assert (os.stat(place / "src").st_uid, os.stat(place / "src").st_gid) == (1234, 1235)
        assert (os.stat(place / "src" / "main.py").st_uid, os.stat(place / "src" / "main.py").st_gid) == (77, 78)


def test_an_encrypted_store_is_mounted_with_its_keys_and_not_without(work, addresses, tree_of, tmp_path):
    key = Key.fresh()
    address, place = addresses(tmp_path / "sealed"), tmp_path / "place"
    sealed = Store.create(address, keys=Keys([key]))
    tree = sealed.snapshot(tree_of(work)).tree
    place.mkdir()
    served = process.start(address, tree, place, keys=[key])
    try:
        assert (place / "README.md").read_bytes() == (work / "README.md").read_bytes()
    finally:
        process.end(served, place)
    with pytest.raises(StoreError, match="could not be mounted"):
        process.start(address, tree, place)
    assert not os.path.ismount(place)


def test_damage_is_an_error_of_the_reader(work, store, tree_of):
    folder = SnapshotFolder(store, store.snapshot(tree_of(work)).tree)
    folder._catalog.blob = lambda asked: (_ for _ in ()).throw(Missing("it is gone"))
    with pytest.raises(OSError, match="Input/output error"):
        folder.read(b"/README.md", 10, 0)


def test_without_libfuse_it_says_what_to_install(work, store, tree_of, address, tmp_path):
    command = [sys.executable, "-m", "workspaces.store", "mount", address, store.snapshot(tree_of(work)).tree, tmp_path]
    environ = os.environ | {"FUSE_LIBRARY_PATH": "/nowhere"}
    done = subprocess.run(map(os.fspath, command), env=environ, cwd=CHECKOUT, capture_output=True, text=True)
    assert done.returncode == 1
    assert "apt install fuse3" in done.stderr
