"""Killed before any system call that writes, or out of space at it: the old state or the new one, never a mix.

The calls are counted once with strace; then the program runs again and again in a fresh process and is killed at
the next one each time. By default some of the points are tried, spread evenly; HANDRAIL_TEST_ROUNDS
multiplies them, and 30 are enough for all.
"""

import collections
import json
import os
import re
import shutil
import subprocess
import sys
import time

import pytest

from tests.workspaces.store.compare_trees import describe
from workspaces.store import LocalTree, Store, recover

WRITING = (
    "write,pwrite64,rename,renameat,renameat2,unlink,unlinkat,mkdir,mkdirat,rmdir,symlink,symlinkat,link,linkat,"
    "truncate,ftruncate,fsync,fdatasync,syncfs,chmod,fchmod,fchmodat,chown,fchown,fchownat,utimensat,"
    "setxattr,fsetxattr,mknodat"
)
ALLOCATING = "write,pwrite64,rename,renameat,renameat2,mkdir,mkdirat,symlinkat,linkat,fsync,fdatasync,syncfs,mknodat"
FEW = 10 * int(os.environ.get("HANDRAIL_TEST_ROUNDS", "1"))


@pytest.fixture(autouse=True)
def strace(require):
    if not shutil.which("strace"):
        require("strace", "strace counts the system calls")


def under_strace(options, arguments):
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    command = ["strace", "-f", "-qq", "--seccomp-bpf", *options, sys.executable, "-m", "workspaces.store", *arguments]
    return subprocess.run([*map(str, command)], env=environment, capture_output=True, timeout=60)


def points(arguments, log, calls=WRITING):
    """Run the program to its end and return every (call, number) at which it can be stopped."""
    done = under_strace(["-o", log, "-e", f"trace={calls}"], arguments)
    assert done.returncode == 0, done.stderr
    counted = collections.Counter(re.findall(r"^\d+ +(\w+)\(", log.read_text(), re.MULTILINE))
    found = [(call, number) for call, count in counted.items() for number in range(1, count + 1)]
    if len(found) > FEW:
        found = [found[len(found) * step // FEW] for step in range(FEW)]
    return found


def stopped_at(call, number, arguments, fault="signal=KILL"):
    """Run the program with one fault; return whether it was hit."""
    done = under_strace(["-o", os.devnull, "-e", f"inject={call}:{fault}:when={number}"], arguments)
    return done.returncode != 0


@pytest.fixture
def scene(tmp_path):
    """A store with one tree in it, and a live tree that has moved on; `again` puts both back."""
    work, kept = tmp_path / "work", tmp_path / "kept"
    (work / "src").mkdir(parents=True)
    (work / "src" / "a").write_text("old a")
    (work / "src" / "same").write_text("same")
    (work / "gone").mkdir()
    (work / "gone" / "inner").write_text("inner")
    (work / "kind").symlink_to("src")
    (work / "mode").write_text("mode")
    os.link(work / "src" / "a", work / "linked")
    store = Store.create(tmp_path / "store")
    old = store.snapshot(LocalTree(work), hold=0).tree
    (work / "src" / "a").unlink()
    (work / "src" / "a").write_text("new a")
    (work / "added").mkdir()
    (work / "added" / "file").write_bytes(os.urandom(50_000))
    shutil.rmtree(work / "gone")
    (work / "kind").unlink()
    (work / "kind").mkdir()
    (work / "mode").chmod(0o600)
    kept.mkdir()
    for name in ("work", "store"):
        shutil.copytree(tmp_path / name, kept / name, symlinks=True)

    def again():
        for name in ("work", "store"):
            shutil.rmtree(tmp_path / name, ignore_errors=True)
            subprocess.run(["cp", "-a", kept / name, tmp_path / name], check=True)

    again()
    return old, again


def told(output):
    return json.loads(output.stdout)


FAULTS = [("killed", WRITING, "signal=KILL"), ("out of space", ALLOCATING, "error=ENOSPC")]
FAULT = pytest.mark.parametrize(("calls", "fault"), [fault[1:] for fault in FAULTS], ids=[fault[0] for fault in FAULTS])


@FAULT
@pytest.mark.parametrize("watched", [False, True], ids=["walked", "watched"])
def test_a_snapshot_that_is_cut_off_harms_nothing(scene, tmp_path, watched, calls, fault):
    old, again = scene
    arguments = ["snapshot", tmp_path / "store", tmp_path / "work"]
    if watched:  # by a process of its own, which the same faults hit
        arguments = ["watch", tmp_path / "work", "--", sys.executable, "-m", "workspaces.store", *arguments]
    tried = points(arguments, tmp_path / "log", calls)
    expected = Store.open(tmp_path / "store").snapshot(LocalTree(tmp_path / "work")).tree
    hit = 0
    for call, number in tried:
        again()
        hit += stopped_at(call, number, arguments, fault)
        store = Store.open(tmp_path / "store")
        assert store.verify(full=True).problems == []
        assert store.read(old, b"src/a") == b"old a"
        assert store.snapshot(LocalTree(tmp_path / "work")).tree == expected
        assert store.verify(full=True).problems == []
    assert hit >= len(tried) * 0.9


@FAULT
def test_a_restore_that_is_cut_off_leaves_the_old_tree_or_the_new(scene, tmp_path, calls, fault):
    old, again = scene
    journal = tmp_path / "journal"
    arguments = ["restore", "--journal", journal, tmp_path / "store", old, tmp_path / "work"]
    before = describe(tmp_path / "work")
    tried = points(arguments, tmp_path / "log", calls)
    after = describe(tmp_path / "work")
    states = []
    for call, number in tried:
        again()
        hit = stopped_at(call, number, arguments, fault)
        recover(journal)
        found = describe(tmp_path / "work")
        assert found in (before, after), (call, number)
        assert recover(journal) is None
        left = {path.name for path in tmp_path.iterdir()}
        assert left - {"kept", "log"} == {"work", "store"}, (call, number)
        if hit:
            states.append(found == after)
    assert (True in states, False in states) == (True, True)


def test_a_recovery_that_is_killed_can_be_recovered(scene, tmp_path):
    old, again = scene
    journal = tmp_path / "journal"
    arguments = ["restore", "--journal", journal, tmp_path / "store", old, tmp_path / "work"]
    before = describe(tmp_path / "work")
    points(arguments, tmp_path / "log")
    after = describe(tmp_path / "work")
    program = "import sys; from workspaces.store import recover; recover(sys.argv[1])"
    for number in range(1, 30):
        again()
        assert stopped_at("renameat2", 2, arguments)
        environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
        kill = ["-e", f"inject={WRITING}:signal=KILL:when={number}"]
        command = ["strace", "-f", "-qq", *kill, "-o", os.devnull, sys.executable, "-c", program, journal]
        done = subprocess.run(command, env=environment, capture_output=True, timeout=60)
        recover(journal)
        assert describe(tmp_path / "work") == after
        if done.returncode == 0:
            break
    assert number > 3
    assert before != after


@FAULT
def test_a_collection_that_is_cut_off_takes_nothing_that_is_needed(scene, tmp_path, calls, fault):
    old, again = scene
    store = Store.open(tmp_path / "store")
    (tmp_path / "work" / "large").write_bytes(os.urandom(300_000))
    store.snapshot(LocalTree(tmp_path / "work"), hold=0)
    shutil.rmtree(tmp_path / "kept" / "store")
    shutil.copytree(tmp_path / "store", tmp_path / "kept" / "store")
    time.sleep(0.01)
    arguments = ["gc", tmp_path / "store", "--keep", old]
    for call, number in points(arguments, tmp_path / "log", calls):
        again()
        stopped_at(call, number, arguments, fault)
        found = Store.open(tmp_path / "store")
        assert found.verify(full=True).problems == []
        assert found.read(old, b"src/a") == b"old a"
        done = found.gc([old])
        assert found.verify(full=True).problems == []
        assert done.objects == 8
