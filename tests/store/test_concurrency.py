"""Writers, readers, collections and an attacker at once."""

import os
import subprocess
import sys
import threading
import time

import pytest

from workspaces.store import LocalTree, Missing, Store, StoreError, recover

ROUNDS = int(os.environ.get("HANDRAIL_STORE_ROUNDS", "40"))


def test_writers_readers_and_collections_get_along(tmp_path):
    """Two writers and a collector in processes of their own, two readers as threads here."""
    Store.create(tmp_path / "store")
    writer = """
import os, random, sys
from workspaces.store import LocalTree, Store
store, work, chance = Store.open(sys.argv[1]), sys.argv[2], random.Random(sys.argv[2])
os.makedirs(work)
for number in range(int(sys.argv[3])):
    with open(os.path.join(work, f"f{chance.randrange(8)}"), "wb") as file:
        file.write(chance.randbytes(chance.choice([10, 5000, 200_000])))
    with open(os.path.join(work, "number"), "w") as file:
        file.write(str(number))
    print(number, store.snapshot(LocalTree(work), hold=30).tree, flush=True)
"""
    collector = """
import sys, time
from workspaces.store import Store
store = Store.open(sys.argv[1])
for _ in range(int(sys.argv[2])):
    store.gc([], since=time.time() - 0.2)
    time.sleep(0.02)
"""
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    commands = [[writer, tmp_path / "store", tmp_path / name, str(ROUNDS)] for name in ("one", "two")]
    commands.append([collector, tmp_path / "store", str(ROUNDS)])
    processes = [
        subprocess.Popen([sys.executable, "-c", *command], stdout=subprocess.PIPE, text=True, env=environment)
        for command in commands
    ]
    store, wrong, taken = Store.open(tmp_path / "store"), [], []

    def read(process):
        for line in process.stdout:
            number, tree = line.split()
            taken.append(tree)
            # Held for half a minute, so it must be there now.
            if store.read(tree, b"number") != number.encode() or len(store.ls(tree)) < 2:
                wrong.append(line)

    readers = [threading.Thread(target=read, args=(process,)) for process in processes[:2]]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join()
    assert [process.wait() for process in processes] == [0, 0, 0]
    for process in processes:
        process.stdout.close()
    assert (len(taken), wrong) == (2 * ROUNDS, [])
    assert store.verify(full=True).problems == []


def test_only_one_writer_at_a_time(store, tree):
    from workspaces.store.lock import writing

    with writing(store.path), pytest.raises(StoreError, match="another writer has held the store"):
        store.snapshot(tree, wait=0.1)
    assert store.snapshot(tree, wait=0.1).entries == 7


def test_a_waiting_writer_can_be_cancelled(store, tree):
    from workspaces.store import Cancelled
    from workspaces.store.lock import writing

    stop = threading.Event()
    threading.Timer(0.1, stop.set).start()
    with writing(store.path), pytest.raises(Cancelled):
        store.snapshot(tree, cancel=stop, wait=30)


ATTACKER = """
import ctypes, os, sys, time
work, outside = os.fsencode(sys.argv[1]), os.fsencode(sys.argv[2])
os.symlink(outside, os.path.join(work, b"trap"))
libc, flips = ctypes.CDLL(None), 0
folder, trap = os.path.join(work, b"d"), os.path.join(work, b"trap")
print("ready", flush=True)
while not os.path.exists(sys.argv[3]):
    # renameat2(RENAME_EXCHANGE): at each moment `d` is a folder or a link to the outside.
    flips += libc.syscall(316 if os.uname().machine == "x86_64" else 276, -100, folder, -100, trap, 2) == 0
print(flips, flush=True)
"""


def test_nothing_outside_is_touched_while_a_folder_flips_to_a_link(tmp_path):
    work, outside, stop = tmp_path / "work", tmp_path / "outside", tmp_path / "stop"
    (work / "d" / "sub").mkdir(parents=True)
    outside.mkdir()
    (outside / "sub").mkdir()
    for at in (work / "d", outside):
        (at / "file").write_text(f"of {at.name}")
        (at / "sub" / "inner").write_text(f"inner of {at.name}")
    store = Store.create(tmp_path / "store")
    wanted = store.snapshot(LocalTree(work)).tree
    (work / "d" / "extra").write_text("extra")
    (work / "d" / "file").write_text("edited")
    other = store.snapshot(LocalTree(work)).tree
    before = describe_outside(outside)
    journal, done, refused = tmp_path / "journal", 0, 0
    command = [sys.executable, "-c", ATTACKER, work, outside, stop]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as attacker:
        assert attacker.stdout.readline() == "ready\n"
        deadline = time.monotonic() + 8
        while time.monotonic() < deadline:
            for tree in (wanted, other):
                try:
                    store.restore(tree, LocalTree(work), journal=journal)
                    done += 1
                except StoreError:
                    refused += 1
                recover_stubbornly(journal)
            store.snapshot(LocalTree(work), hold=0)
        stop.touch()
        flips = int(attacker.stdout.readline())
    assert describe_outside(outside) == before
    assert flips >= 1000
    assert done + refused >= 10
    for path in (work / "trap", work / "d"):
        if path.is_symlink():
            path.unlink()
    store.restore(wanted, LocalTree(work), journal=journal)
    assert store.compare(wanted, LocalTree(work), full=True).differ == []


def recover_stubbornly(journal):
    """An attacker who is not frozen may spoil a recovery too; it can always be tried again."""
    for _ in range(1000):
        try:
            recover(journal)
            return
        except (StoreError, OSError):
            continue
    raise AssertionError("never recovered")


def describe_outside(outside):
    return {
        str(path): (
            path.lstat().st_ino,
            path.lstat().st_mtime_ns,
            path.lstat().st_ctime_ns,
            path.is_file() and path.read_text(),
        )
        for path in (outside, *outside.rglob("*"))
    }


def test_a_reader_is_not_shown_what_was_never_committed(store, tree):
    with pytest.raises(Missing):
        store.read("00" * 32, b"README.md")
