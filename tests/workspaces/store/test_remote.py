"""A tree inside a guest: nothing but news travels, a crash on either side leaves the old tree or the new one."""

import collections
import os
import re
import shutil
import socket
import subprocess
import sys
import threading
from contextlib import contextmanager

import pytest

from tests.workspaces.store.compare_trees import describe
from tests.workspaces.store.guests import Guest, program
from tests.workspaces.store.test_crash import FEW, WRITING
from workspaces.store import Cancelled, LocalTree, StoreError
from workspaces.store.guest.client import RemoteLive, RemoteTree, Wire
from workspaces.store.guest.protocol import FOLDER_ITEM


@pytest.fixture
def guest(work):
    found = Guest(work)
    yield found
    found.close()


def test_the_same_tree_has_the_same_id_inside_and_outside(store, work, guest):
    os.link(work / "README.md", work / "src" / "again")
    os.setxattr(work / "README.md", "user.text", b"value")
    assert store.snapshot(guest.tree()).tree == store.snapshot(LocalTree(work)).tree


def test_only_news_travels(store, work, guest, settle):
    (work / "large").write_bytes(os.urandom(3_000_000))
    settle()
    store.snapshot(guest.tree())
    (work / "src" / "main.py").write_text("changed")
    settle()
    read, travelled = [], 0
    wire = Wire._some

    def counted(self, length, until):
        nonlocal travelled
        data = wire(self, length, until)
        travelled += len(data)
        return data

    Wire._some = counted
    try:
        store.snapshot(guest.tree(), inspect=lambda path, data: read.append(path))
    finally:
        Wire._some = wire
    assert (read, travelled < 5000) == ([b"src/main.py"], True)


def test_a_file_that_changes_while_it_travels_is_sent_again(store, work, guest):
    """More of it than is looked at at once, so the guest is still reading when the host sees the first of it."""
    (work / "log").write_bytes(os.urandom(12 << 20))
    seen = []

    def change(path, data):
        if path == b"log" and not seen:
            with open(work / "log", "ab") as file:
                file.write(b"one more line")
        seen.append(path)

    taken = store.snapshot(guest.tree(), inspect=change)
    assert (taken.skipped, store.read(taken.tree, b"log") == (work / "log").read_bytes()) == ([], True)


def test_a_file_that_changes_at_every_reading_is_marked(store, work, guest):
    (work / "log").write_bytes(os.urandom(12 << 20))

    def change(path, data):
        if path == b"log":
            with open(work / "log", "ab") as file:
                file.write(b"one more line")

    taken = store.snapshot(guest.tree(), inspect=change)
    assert [one.path for one in taken.skipped] == [b"log"]
    assert "it changed during each" in taken.skipped[0].reason
    assert store.verify(full=True).ok


def test_a_cancelled_snapshot_and_restore_leave_nothing_and_the_guest_goes_on(store, work, guest, tmp_path):
    (work / "log").write_bytes(os.urandom(12 << 20))
    first = store.snapshot(guest.tree()).tree
    before = describe(work)
    shutil.rmtree(work / "src")
    (work / "log").unlink()
    after = describe(work)
    stop = threading.Event()
    with pytest.raises(Cancelled):
        store.restore(first, guest.tree(), journal=None, cancel=stop, progress=lambda _: stop.set())
    assert describe(work) == after
    store.restore(first, guest.tree(), journal=None)
    assert describe(work) == before
    stop = threading.Event()
    with pytest.raises(Cancelled):
        store.snapshot(guest.tree(), thorough=True, cancel=stop, inspect=lambda path, data: stop.set())
    assert store.snapshot(guest.tree()).tree == first
    assert not [path for path in os.listdir(tmp_path) if "handrail" in path or "journal" in path]


@pytest.fixture
def scene(store, work, tmp_path):
    """Two snapshots of a tree, and a way to put the tree back to the second one."""
    old = store.snapshot(LocalTree(work)).tree
    (work / "src" / "main.py").write_text("changed")
    shutil.rmtree(work / "empty")
    (work / "link").unlink()
    (work / "link").mkdir()
    (work / "added").mkdir(mode=0o700)
    (work / "added" / "file").write_bytes(os.urandom(50_000))
    shutil.copytree(work, tmp_path / "kept", symlinks=True)
    new = store.snapshot(LocalTree(work)).tree
    return old, new


def test_a_server_that_is_killed_at_any_step_leaves_the_old_tree_or_the_new(scene, store, work, tmp_path, require):
    if not shutil.which("strace"):
        require("strace", "strace counts the system calls")
    old, new = scene
    log = tmp_path / "log"

    def restore(to, *options):
        guest = Guest(work, wrap=("strace", "-f", "-qq", "--seccomp-bpf", *options))
        try:
            store.restore(to, guest.tree(), journal=None)
        finally:
            guest.close()

    later = describe(work)
    restore(old, "-o", log, "-e", f"trace={WRITING}")
    earlier = describe(work)
    counted = collections.Counter(re.findall(r"^\d+ +(\w+)\(", log.read_text(), re.MULTILINE))
    points = [(call, number) for call, count in counted.items() for number in range(1, count + 1)]
    if len(points) > FEW:
        points = [points[len(points) * step // FEW] for step in range(FEW)]
    states = []
    for call, number in points:
        store.restore(new, LocalTree(work), journal=tmp_path / "journal")
        with pytest.raises(StoreError, match=r"connection to the guest of .* was lost|was not restored"):
            restore(old, "-o", os.devnull, "-e", f"inject={call}:signal=KILL:when={number}")
        guest = Guest(work)
        guest.tree().recover()
        found = describe(work)
        assert found in (earlier, later), (call, number)
        assert guest.tree().recover() is None
        guest.close()
        assert not [name for name in os.listdir(tmp_path) if "handrail" in name or "journal" in name]
        states.append(found == earlier)
    assert (True in states, False in states) == (True, True)


def test_an_unfinished_restore_is_not_built_upon(scene, store, work, guest):
    old, _ = scene
    guest.journal.write_text("not a journal")
    with pytest.raises(StoreError, match="is damaged"):
        store.restore(old, guest.tree(), journal=None)


class Liar(RemoteTree):
    """A guest that answers what it likes."""

    def __init__(self, *said):
        (reading, theirs), (away, writing) = os.pipe(), os.pipe()
        wire = Wire(away, theirs)
        for head, body in said:
            wire.send(head, body)
        self.ends = reading, writing, away, theirs
        super().__init__(lambda: (reading, writing, lambda: None), name="/workspace", timeout_s=0.2)

    def close(self):
        for fd in self.ends:
            os.close(fd)


HELLO = {"end": True, "version": 1, "euid": 0, "owner": [0, 0], "identity": [1, 2], "is_ctime_trusted": True,
         "unfinished": False}  # fmt: skip


def folder_of(name):
    return FOLDER_ITEM.pack(0, 0, len(name), 32, 17, 0) + name + bytes(32) + bytes(17)


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ([({**HELLO, "version": 7}, b"")], "uses protocol version 7; this program supports 1"),
        (
            [(HELLO, b""), ({"end": True, "started_ns": 5}, b""), ({"folders": True}, folder_of(b"../up"))],
            "invalid list",
        ),
        (
            [(HELLO, b""), ({"end": True, "started_ns": 5}, b""), ({"folders": True}, folder_of(b".."))],
            "invalid list",
        ),
        ([(HELLO, b""), ({"end": True, "error": "no room", "errno": 28}, b"")], "the disk is full"),
        ([(HELLO, b"")], "no data was received"),
    ],
)
def test_what_a_guest_cannot_mean_is_refused_and_nothing_is_kept(store, said, words):
    liar = Liar(*said)
    with pytest.raises(StoreError, match=words):
        store.snapshot(liar)
    liar.close()
    assert store.verify(full=True).objects == 0


@pytest.mark.parametrize("asked", ["snapshot", "restore"])
def test_a_server_that_ended_behind_an_open_port_fails_the_request_at_once(store, work, tmp_path, asked):
    """The port of a guest stays open when the server behind it ends, so nothing is ever received or taken again."""
    (work / "large").write_bytes(os.urandom(3 << 20))
    taken = store.snapshot(LocalTree(work))
    (work / "large").unlink()
    (work / "new").write_text("x")
    here, there = socket.socketpair()
    command = [sys.executable, "-I", "-S", "-B", program(), work, "--journal", tmp_path / "journal"]
    process = subprocess.Popen([*map(str, command)], stdin=there, stdout=there)

    class Port(RemoteTree):
        @contextmanager
        def opened(self):
            live = RemoteLive(self.path, Wire(here.fileno(), here.fileno(), 600, lambda: process.poll() is None))
            process.kill()
            process.wait()
            yield live

    tree = Port(None, name=str(work))
    asks = {
        "snapshot": lambda: store.snapshot(tree),
        "restore": lambda: store.restore(taken.tree, tree, journal=tmp_path / "journal"),
    }
    with here, there, pytest.raises(StoreError, match="its file server ended"):
        asks[asked]()
