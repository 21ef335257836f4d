"""Three writers and a collector as processes on a real bucket, and kill -9 of any of them and of the server.

What a writer said it had stored is there at the end, byte for byte, unless it was dropped before. The shared clock runs
two thousand times as fast, so that what left the head is removed within the test, and objects of writers at work are
taken for leftovers. HANDRAIL_TEST_BUCKET_ROUNDS (20) is how many rounds there are.
"""

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time

import pytest

from tests.support.buckets import seaweed
from tests.workspaces.store.compare_trees import describe
from workspaces.store import LocalTree, Store, StoreError

ROUNDS = int(os.environ.get("HANDRAIL_TEST_BUCKET_ROUNDS", "20"))
WRITERS, FASTER, HOLD = 3, 2000, 90_000
pytestmark = pytest.mark.timeout(300 + 20 * ROUNDS)

# Prints each tree that it has stored, as the product writes a row; the trees are small and share files.
WRITER = """
import json, os, random, sys, time
from pathlib import Path
from workspaces.store import LocalTree, Store, StoreError
address, cache, begun, work, seed = sys.argv[1:]
clock = lambda: float(begun) + (time.time() - float(begun)) * FASTER
chance, work = random.Random(int(seed)), Path(work)
work.mkdir(parents=True, exist_ok=True)
while True:
    for _ in range(chance.randrange(1, 4)):
        folder = work / f"d{chance.randrange(4)}"
        folder.mkdir(exist_ok=True)
        size = chance.choice([10, 3000, 90_000])
        (folder / f"f{chance.randrange(6)}").write_bytes(bytes([chance.randrange(8)]) * size)
    try:
        tree = Store.open(address, cache=cache, clock=clock).snapshot(LocalTree(work), hold=HOLD).tree
    except StoreError as error:
        print(json.dumps({"refused": str(error)}), flush=True)
        continue
    print(json.dumps({"tree": tree}), flush=True)
""".replace("FASTER", str(FASTER)).replace("HOLD", str(HOLD))
# Collects once for each line, and asks for the trees that are needed when the store wants them.
COLLECTOR = """
import json, sys, time
from workspaces.store import Store, StoreError
address, cache, begun = sys.argv[1:]
clock = lambda: float(begun) + (time.time() - float(begun)) * FASTER
def rows():
    print(json.dumps({"want": True}), flush=True)
    while "keep" not in (answer := json.loads(sys.stdin.readline())):
        pass  # asked to collect once more while it does
    return answer["keep"]
while json.loads(sys.stdin.readline())["collect"]:
    try:
        done = Store.open(address, cache=cache, clock=clock).gc(rows)
        print(json.dumps({"removed": done.removed_objects}), flush=True)
    except StoreError as error:
        print(json.dumps({"refused": str(error)}), flush=True)
""".replace("FASTER", str(FASTER))


class Process:
    """One of them, which is begun anew after each kill, with the copies that the dead one left."""

    def __init__(self, hosts, program, *arguments):
        self.hosts, self._command = hosts, [sys.executable, "-c", program, *map(str, arguments)]
        self.said: list[dict] = []
        self.begin()

    def begin(self):
        self.process = subprocess.Popen(
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=self.hosts.environment
        )
        threading.Thread(target=self._listen, args=(self.process,), daemon=True).start()

    def _listen(self, process):
        with process.stdout:
            for line in process.stdout:
                if line.endswith("\n"):
                    self.hosts.heard(self, json.loads(line))

    def ask(self, **fields):
        try:
            self.process.stdin.write(json.dumps(fields) + "\n")
            self.process.stdin.flush()
        except (BrokenPipeError, ValueError):
            pass

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.process.stdin.close()


class Hosts:
    """All processes, and the rows: the trees that writers have stored and nobody has dropped."""

    def __init__(self, bucket, address, folder):
        self.bucket, self.address, self.folder = bucket, address, folder
        self.environment = {**os.environ, **bucket.environ}
        self.rows: list[str] = []
        self.refused: list[str] = []
        self.stored = self.collections = self.removed = 0
        self._lock = threading.Lock()
        begun = time.time()
        self.writers = [
            Process(self, WRITER, address, folder / f"copies-{n}", begun, folder / f"work-{n}", n)
            for n in range(WRITERS)
        ]
        self.collector = Process(self, COLLECTOR, address, folder / "copies-gc", begun)

    def heard(self, process, fields):
        with self._lock:
            if "tree" in fields:
                self.rows.append(fields["tree"])
                self.stored += 1
            elif "want" in fields:
                process.ask(keep=sorted(set(self.rows)))
            elif "removed" in fields:
                self.collections += 1
                self.removed += fields["removed"]
            else:
                self.refused.append(fields["refused"])

    def drop(self, chance):
        """Forget most rows, as retention does."""
        with self._lock:
            chance.shuffle(self.rows)
            del self.rows[8:]

    def end(self):
        for process in (*self.writers, self.collector):
            process.kill()


@pytest.fixture
def hosts(tmp_path, require, monkeypatch):
    with seaweed(tmp_path / "seaweed", require) as bucket:
        for name, value in bucket.environ.items():
            monkeypatch.setenv(name, value)
        address = bucket.address("killed")
        Store.create(address, cache=tmp_path / "first")
        found = Hosts(bucket, address, tmp_path)
        yield found
        found.end()


def test_kills_of_writers_collector_and_server_lose_nothing(hosts, tmp_path):
    chance = random.Random(ROUNDS)
    for number in range(ROUNDS):
        time.sleep(chance.uniform(0.3, 1.2))
        hosts.drop(chance)
        hosts.collector.ask(collect=True)
        time.sleep(chance.uniform(0.0, 0.6))
        if number % 5 == 4:
            hosts.bucket.kill()
            hosts.bucket.start()
        killed = chance.choice([*hosts.writers, hosts.collector])
        killed.kill()
        check(hosts, tmp_path / f"reader-{number}")
        killed.begin()
    hosts.end()
    check(hosts, tmp_path / "last")
    store = Store.open(hosts.address, cache=tmp_path / "verified")
    found = store.verify(full=True)
    assert found.problems == []
    print(
        f"{hosts.stored} stored, {hosts.collections} collections, {hosts.removed} objects removed", hosts.refused[-3:]
    )
    assert (hosts.stored > ROUNDS, hosts.collections > 0, hosts.removed > 0) == (True, True, True), hosts.refused[-5:]
    tree = hosts.rows[0]
    (tmp_path / "out").mkdir()
    store.restore(tree, LocalTree(tmp_path / "out"), journal=tmp_path / "journal")
    assert store.snapshot(LocalTree(tmp_path / "out")).tree == tree
    assert describe(tmp_path / "out")


def check(hosts, copies):
    """Read each row's tree as a host that has nothing; a row that is dropped meanwhile may be gone."""
    with hosts._lock:
        rows = list(dict.fromkeys(hosts.rows))[-6:]
    store = Store.open(hosts.address, cache=copies)
    for tree in rows:
        try:
            assert store.read_back(tree) == []
        except StoreError:
            if tree in hosts.rows:
                raise
