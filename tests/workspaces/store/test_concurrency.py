"""Writers, readers, collections and an attacker at once."""

import mmap
import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from workspaces.store import LocalTree, Missing, Store, StoreError, recover

MORE = int(os.environ.get("HANDRAIL_TEST_ROUNDS", "1"))
ROUNDS = 24 * MORE
pytestmark = pytest.mark.timeout(300 * MORE)


def test_writers_readers_and_collections_get_along(tmp_path, address):
    """Two writers and a collector in processes of their own, two readers as threads here."""
    Store.create(address)
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
    commands = [[writer, address, tmp_path / name, str(ROUNDS)] for name in ("one", "two")]
    commands.append([collector, address, str(ROUNDS)])
    processes = [
        subprocess.Popen([sys.executable, "-c", *command], stdout=subprocess.PIPE, text=True, env=environment)
        for command in commands
    ]
    store, wrong, taken = Store.open(address), [], []

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


def test_only_one_writer_at_a_time_in_a_folder(tmp_path, tree):
    store = Store.create(tmp_path / "store")
    from workspaces.store.lock import writing

    with writing(store.path), pytest.raises(StoreError, match="another process has locked the store"):
        store.snapshot(tree, wait=0.1)
    assert store.snapshot(tree, wait=0.1).entries == 7


def test_a_waiting_writer_can_be_cancelled(tmp_path, tree):
    store = Store.create(tmp_path / "store")  # the one kind that waits
    from workspaces.store import Cancelled
    from workspaces.store.lock import writing

    stop = threading.Event()
    threading.Timer(0.1, stop.set).start()
    with writing(store.path), pytest.raises(Cancelled):
        store.snapshot(tree, cancel=stop, wait=30)


# The trap lies beside the tree, where no restore removes it. When one has taken the link away, another is laid; only
# exchanges of a folder with a link count. A mapped file counts them, so that it shows which fell into a restore.
ATTACKER = """
import ctypes, itertools, mmap, os, sys
work, outside, trap, parent = *map(os.fsencode, sys.argv[1:4]), os.getppid()
count, folder = mmap.mmap(os.open(sys.argv[4], os.O_RDWR), 8), os.path.join(work, b"d")
syscall, call, flips = ctypes.CDLL(None).syscall, 316 if os.uname().machine == "x86_64" else 276, 0
def exchange(a, b):
    return syscall(call, -100, a, -100, b, 2) == 0  # renameat2(RENAME_EXCHANGE): at each moment one or the other
def link():
    return os.path.islink(folder) or os.path.islink(trap)
os.symlink(outside, trap)
print("ready", flush=True)
for number in itertools.count():
    if os.getppid() != parent:
        break
    made = sum(exchange(folder, trap) for _ in range(9))
    if link():
        flips += made
        count[:] = flips.to_bytes(8, sys.byteorder)
    else:
        os.symlink(outside, b"%s%d" % (trap, number))
        exchange(b"%s%d" % (trap, number), trap)
"""
FLIPS = 1000 * min(MORE, 5)


def test_nothing_outside_is_touched_while_a_folder_flips_to_a_link(tmp_path, address):
    work, outside = tmp_path / "work", tmp_path / "outside"
    store, trees = a_tree_to_attack(work, outside, address)
    before = describe_outside(outside)
    journal, done, refused, during = tmp_path / "journal", 0, 0, 0
    (tmp_path / "flips").write_bytes(bytes(8))
    with open(tmp_path / "flips", "r+b") as file, mmap.mmap(file.fileno(), 8) as count:
        command = [sys.executable, "-c", ATTACKER, work, outside, tmp_path / "trap", tmp_path / "flips"]
        attacker = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            assert attacker.stdout.readline() == "ready\n"
            # As long as it takes, not as long as a fast machine takes: a slow one makes fewer of both in a second.
            deadline = time.monotonic() + 240
            while (during < FLIPS or done + refused < 50) and time.monotonic() < deadline:
                begun = int.from_bytes(count[:], sys.byteorder)
                try:
                    store.restore(trees[(done + refused) % 2], LocalTree(work), journal=journal)
                    done += 1
                except StoreError:
                    refused += 1
                recover_stubbornly(journal)
                during += int.from_bytes(count[:], sys.byteorder) - begun
        finally:
            attacker.kill()
            attacker.communicate()
    assert describe_outside(outside) == before
    assert (during >= FLIPS, done + refused >= 50) == (True, True), (during, done, refused)
    if (work / "d").is_symlink():
        (work / "d").unlink()
    store.restore(trees[0], LocalTree(work), journal=journal)
    assert store.compare(trees[0], LocalTree(work), full=True).differ == []


def a_tree_to_attack(work, outside, address):
    """A folder `d` that looks like `outside`, and the two snapshots between which restores go to and fro."""
    (work / "d" / "sub").mkdir(parents=True)
    (outside / "sub").mkdir(parents=True)
    for at in (work / "d", outside):
        (at / "file").write_text(f"of {at.name}")
        (at / "sub" / "inner").write_text(f"inner of {at.name}")
    store = Store.create(address)
    wanted = store.snapshot(LocalTree(work)).tree
    (work / "d" / "extra").write_text("extra")
    (work / "d" / "file").write_text("edited")
    return store, [wanted, store.snapshot(LocalTree(work)).tree]


def recover_stubbornly(journal):
    """An attacker who is not frozen may spoil a recovery too; it can always be tried again.

    By the clock: the attacker may be stopped for a while (a full journal of the disk) with the link in place.
    """
    deadline = time.monotonic() + 60
    while True:
        try:
            recover(journal)
            return
        except (StoreError, OSError):
            assert time.monotonic() < deadline, "never recovered"
            time.sleep(0.001)


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


def test_a_store_appears_whole_and_only_one_of_many_makes_it(tmp_path, addresses):
    """Two workspaces of a new team take their first snapshots at the same time."""
    for number in range(ROUNDS):
        path, begin = addresses(tmp_path / f"store-{number}"), threading.Barrier(4)

        def make(path=path, begin=begin):
            begin.wait()
            try:
                return Store.create(path).id
            except StoreError as error:
                return str(error)

        def look(path=path, begin=begin):
            begin.wait()
            while True:
                try:
                    return Store.open(path).id
                except StoreError as error:
                    if str(error) != f"there is no store at {path}":
                        return str(error)

        with ThreadPoolExecutor(4) as threads:
            makers = [threads.submit(make) for _ in range(2)]
            readers = [threads.submit(look) for _ in range(2)]
            answers = {maker.result() for maker in makers}
            seen = {reader.result() for reader in readers}
        assert len(seen) == 1
        assert answers == seen | {f"{path} is not empty"}
        assert list(tmp_path.glob(f".store-{number}*")) == []
