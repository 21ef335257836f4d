"""The files of a checkpoint: copies of a paused guest's disks and its memory, put back as often as one likes."""

import json
import os
import secrets

import pytest

from workspaces.drivers.base import DriverError
from workspaces.drivers.microvm import checkpoints, disks, memory
from workspaces.drivers.microvm.memory import Unfit

HOLE = 4 << 20


@pytest.fixture
def paused(tmp_path):
    """`paused(name)`: the two folders of a guest that is down, with the memory of a pause beside its disk."""

    def make(name: str, content: bytes = b"files") -> dict:
        folders = {kind: tmp_path / name / kind for kind in ("workspace", "home")}
        for kind, folder in folders.items():
            disks.guest_folder(folder).mkdir(parents=True)
            with open(disks.disk_of(folder), "wb") as disk:
                disk.truncate(HOLE)
                disk.write(content + kind.encode())
            disks.identity_file(folder).write_text(json.dumps({"id": secrets.token_hex(4), "generation": 3}))
        return folders

    return make


@pytest.fixture
def key(tmp_path):
    return tmp_path / "key"


def save_memory(key, folders, content: bytes):
    read_end, write_end = os.pipe()
    os.write(write_end, content)
    os.close(write_end)
    path = disks.memory_of(folders["workspace"])
    belongs = {"disks": [disks.identity(folder) for folder in folders.values()], "generation": 0}
    memory.write(key, path, read_end, belongs, run="run-1")
    os.close(read_end)
    memory.commit(path)


def memory_in(key, folders) -> bytes:
    return b"".join(memory.read(key, disks.memory_of(folders["workspace"])))


def write_over(folders, content: bytes):
    """As a guest does that runs on: it writes in place, counts the generation up, and uses its memory up."""
    for folder in folders.values():
        with open(disks.disk_of(folder), "r+b") as disk:
            disk.write(content)
        disks.next_generation(folder)
    memory.discard(disks.memory_of(folders["workspace"]))


def contents(folders) -> list[bytes]:
    return [disks.disk_of(folder).read_bytes().rstrip(b"\0") for folder in folders.values()]


def test_a_checkpoint_is_restored_twice_whatever_happened_since(paused, key, tmp_path):
    folders, place = paused("one"), tmp_path / "checkpoints" / "first"
    save_memory(key, folders, b"memory of the first")
    known = [disks.identity(folder) for folder in folders.values()]
    kept = checkpoints.copy_out(folders, place)
    assert (kept.began, kept.bytes > 0) == ("run-1", True)
    for number in range(2):
        write_over(folders, b"changed %d " % number)
        with pytest.raises(Unfit, match="No memory was saved"):
            memory_in(key, folders)
        checkpoints.copy_in(place, folders)
        assert contents(folders) == [b"filesworkspace", b"fileshome"]
        assert [disks.identity(folder) for folder in folders.values()] == known
        assert memory_in(key, folders) == b"memory of the first"


def test_a_fork_has_disks_of_its_own(paused, key, tmp_path):
    first, place = paused("one"), tmp_path / "kept"
    save_memory(key, first, b"memory")
    checkpoints.copy_out(first, place)
    forks = [paused(f"fork-{number}", b"empty") for number in range(2)]
    for fork in forks:
        checkpoints.copy_in(place, fork)
    write_over(forks[0], b"another")
    assert contents(forks[1]) == contents(first) == [b"filesworkspace", b"fileshome"]
    assert memory_in(key, forks[1]) == memory_in(key, first) == b"memory"


def test_holes_stay_holes_and_memory_is_not_copied_while_it_is_shared(paused, key, tmp_path):
    folders, place = paused("one"), tmp_path / "kept"
    save_memory(key, folders, secrets.token_bytes(32 << 10))
    before = checkpoints.size_of(folders)
    kept = checkpoints.copy_out(folders, place)
    assert kept.bytes < HOLE
    assert before <= kept.bytes <= before + (64 << 10)
    assert os.path.samefile(place / "memory", disks.memory_of(folders["workspace"]))


def test_a_checkpoint_without_memory_is_refused_and_leaves_nothing(paused, tmp_path):
    folders, place = paused("one"), tmp_path / "kept"
    with pytest.raises(DriverError, match="could not be written: No such file"):
        checkpoints.copy_out(folders, place)
    assert list(tmp_path.glob("kept*")) == []


def test_a_checkpoint_without_files_is_refused_and_the_disks_stay(paused, key, tmp_path):
    folders = paused("one")
    with pytest.raises(DriverError, match="may have been deleted"):
        checkpoints.copy_in(tmp_path / "nowhere", folders)
    assert contents(folders) == [b"filesworkspace", b"fileshome"]
