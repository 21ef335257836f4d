"""A disk that is really full, at one point after the other: the old state or the new one, and a sentence.

Space is given out in blocks, so with each block more another call is the one that finds none. By default some amounts
are tried; HANDRAIL_TEST_ROUNDS multiplies them, and from 10 on there is every block from none to more than enough.
"""

import errno
import os
import shutil
import subprocess

import pytest

from tests.workspaces.store.compare_trees import describe
from workspaces.store import LocalTree, Store, StoreError, recover

STEPS = 12 * int(os.environ.get("HANDRAIL_TEST_ROUNDS", "1"))
BLOCK = 4096


@pytest.fixture(params=["tmpfs", "ext4"])
def disk(request, tmp_path, require):
    """A small file system of its own, which `fill(free)` fills up to so many bytes."""
    here = tmp_path / "disk"
    here.mkdir()
    if os.geteuid() != 0:
        require("mount", "only root mounts a disk that can be filled")
    if request.param == "tmpfs":
        commands = [["mount", "-t", "tmpfs", "-o", "size=6m", "tmpfs", here]]
    else:
        with open(tmp_path / "image", "wb") as image:
            image.truncate(12 << 20)
        commands = [["mkfs.ext4", "-q", "-m", "0", tmp_path / "image"]]
        commands.append(["mount", "-o", "loop", tmp_path / "image", here])
    for command in commands:
        try:
            done = subprocess.run([*map(str, command)], capture_output=True, text=True)
        except FileNotFoundError:
            require("mount", f"there is no {command[0]}")
        if done.returncode:
            require("mount", f"no {request.param} can be mounted here: {done.stderr.strip()}")
    yield here
    subprocess.run(["umount", "-l", here], check=True)


def fill(disk, free):
    """Leave so many bytes free."""
    (disk / "ballast").unlink(missing_ok=True)
    os.sync()
    fd, length = os.open(disk / "ballast", os.O_RDWR | os.O_CREAT, 0o600), 0
    try:
        for size in (1 << 20, BLOCK):
            try:
                while True:
                    length += os.write(fd, bytes(size))
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise
        os.fsync(fd)
        os.ftruncate(fd, max(0, length - free))
        os.fsync(fd)
    finally:
        os.close(fd)


def refusal(work):
    """What the store said when it could not go on; "" when it could."""
    try:
        work()
    except StoreError as error:
        return str(error)
    return ""


def empty_again(disk):
    (disk / "ballast").unlink(missing_ok=True)
    os.sync()


@pytest.fixture
def scene(disk, tmp_path):
    """A store and a tree on the disk; the tree has moved on. `again` puts both back."""
    work = disk / "work"
    (work / "src").mkdir(parents=True)
    for number in range(20):
        (work / "src" / f"f{number}").write_bytes(os.urandom(6000))
    (work / "gone").mkdir()
    (work / "link").symlink_to("src")
    old = Store.create(disk / "store").snapshot(LocalTree(work), hold=0).tree
    for number in range(10):
        (work / "src" / f"f{number}").write_bytes(os.urandom(8000))
    (work / "gone").rmdir()
    (work / "added").mkdir()
    (work / "added" / "file").write_bytes(os.urandom(200_000))
    subprocess.run(["cp", "-a", disk / "store", disk / "work", tmp_path], check=True)

    def again():
        empty_again(disk)
        for name in ("store", "work"):
            shutil.rmtree(disk / name)
            subprocess.run(["cp", "-a", tmp_path / name, disk / name], check=True)

    return old, again


def frees(needed):
    """From no room at all to enough."""
    return sorted({needed * step // STEPS // BLOCK * BLOCK for step in range(STEPS + 1)})


def test_a_snapshot_on_a_full_disk_harms_nothing(disk, scene):
    old, again = scene
    new, ended = Store.open(disk / "store").snapshot(LocalTree(disk / "work"), hold=0).tree, []
    for free in frees(450_000):
        again()
        fill(disk, free)
        store = Store.open(disk / "store")
        said = refusal(lambda store=store: store.snapshot(LocalTree(disk / "work"), hold=0))
        assert said == "" or "the disk is full" in said
        ended.append(said == "")
        empty_again(disk)
        store = Store.open(disk / "store")
        assert store.verify(full=True).problems == []
        assert len(store.read(old, b"src/f0")) == 6000
        assert store.snapshot(LocalTree(disk / "work"), hold=0).tree == new
    assert (ended[0], ended[-1]) == (False, True)


def test_a_restore_on_a_full_disk_leaves_the_old_tree_or_the_new(disk, scene, tmp_path):
    old, again = scene
    work, journal, ended = disk / "work", disk / "journal", []
    before = describe(work)
    for free in frees(250_000):
        again()
        fill(disk, free)
        said = refusal(lambda: Store.open(disk / "store").restore(old, LocalTree(work), journal=journal))
        assert said == "" or "the disk is full" in said or "No space left" in said
        try:
            recover(journal)
        except (StoreError, OSError):  # even that may need room: it says so, and goes on once there is some
            empty_again(disk)
            recover(journal)
        found = describe(work)
        ended.append(found != before)
        if ended[-1]:
            assert Store.open(disk / "store").compare(old, LocalTree(work), full=True).differ == []
        assert {path.name for path in disk.iterdir()} <= {"work", "store", "ballast", "lost+found"}
    assert (ended[0], ended[-1]) == (False, True)


def test_a_collection_on_a_full_disk_takes_nothing_that_is_needed(disk, scene):
    old, again = scene
    Store.open(disk / "store").snapshot(LocalTree(disk / "work"), hold=0)
    shutil.rmtree(disk.parent / "store")
    subprocess.run(["cp", "-a", disk / "store", disk.parent], check=True)
    for free in frees(250_000):
        again()
        fill(disk, free)
        said = refusal(lambda: Store.open(disk / "store").gc([old]))
        assert said == "" or "the disk is full" in said
        empty_again(disk)
        store = Store.open(disk / "store")
        assert store.verify(full=True).problems == []
        assert len(store.read(old, b"src/f0")) == 6000
