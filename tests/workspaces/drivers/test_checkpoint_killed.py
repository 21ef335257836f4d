"""Killed before any system call that changes a file while a checkpoint is put in place: nothing is half a checkpoint.

The calls are counted once with strace. Then a fresh process is killed at one after the other: by default at some of
them, with HANDRAIL_TEST_ROUNDS=30 at all.
"""

import collections
import os
import re
import shutil
import subprocess
import sys

import pytest

from tests.workspaces.drivers.test_checkpoint_files import contents, key, memory_in, paused, save_memory, write_over  # noqa: F401
from tests.workspaces.store.test_crash import FEW, WRITING
from workspaces.drivers.microvm import checkpoints, disks, memory

PUT = """
import sys
from pathlib import Path
from workspaces.drivers.microvm import checkpoints
place, workspace, home = map(Path, sys.argv[1:])
checkpoints.copy_in(place, {"workspace": workspace, "home": home})
"""


@pytest.fixture
def put(tmp_path, require):
    """`put(place, folders, *options of strace)`: in a process of its own; its exit status."""
    if not shutil.which("strace"):
        require("strace", "strace counts the system calls")

    def run(place, folders, *options) -> int:
        command = [
            "strace",
            "-f",
            "-qq",
            "--seccomp-bpf",
            *options,
            sys.executable,
            "-c",
            PUT,
            place,
            *folders.values(),
        ]
        environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
        return subprocess.run([*map(str, command)], env=environment, capture_output=True, timeout=300).returncode

    return run


def calls_in(log) -> list[tuple[str, int]]:
    """(system call, how many of it) of some steps, spread evenly."""
    counted = collections.Counter(re.findall(r"^\d+ +(\w+)\(", log.read_text(), re.MULTILINE))
    found = [(call, number) for call, count in counted.items() for number in range(1, count + 1)]
    return [found[len(found) * step // FEW] for step in range(FEW)] if len(found) > FEW else found


def test_a_restore_that_is_cut_off_leaves_whole_disks_and_no_memory_of_others(paused, key, put, tmp_path):  # noqa: F811
    folders, place = paused("one"), tmp_path / "kept"
    save_memory(key, folders, b"memory")
    checkpoints.copy_out(folders, place)
    kept = contents(folders)
    write_over(folders, b"later")
    before = contents(folders)
    assert put(place, folders, "-o", tmp_path / "log", "-e", f"trace={WRITING}") == 0
    states = set()
    for call, number in calls_in(tmp_path / "log"):
        write_over(folders, b"later")
        assert put(place, folders, "-o", os.devnull, "-e", f"inject={call}:signal=KILL:when={number}") != 0
        found = contents(folders)
        assert all(now in both for now, *both in zip(found, before, kept, strict=True)), (call, number)
        if disks.memory_of(folders["workspace"]).exists():
            assert (found, memory_in(key, folders)) == (kept, b"memory"), (call, number)
            fits = memory.head_of(disks.memory_of(folders["workspace"]))["belongs"]["disks"]
            assert fits == [disks.identity(folder) for folder in folders.values()]
        states.add(tuple(found))
        checkpoints.copy_in(place, folders)
        assert (contents(folders), memory_in(key, folders)) == (kept, b"memory"), (call, number)
    assert tuple(before) in states
    assert len(states) > 1  # some of the steps were behind the first disk
