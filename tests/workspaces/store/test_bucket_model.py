"""Writers and collections on one bucket in any order of their requests, with kills, lost answers and late ones.

Each actor is a thread that stops before each request. Hypothesis chooses who goes on, and what becomes of the request.
The bucket is obstore's in memory, with real preconditions; the engine is the real one. HANDRAIL_TEST_ROUNDS multiplies
the examples.
"""

import itertools
import os
import tempfile
import threading
import time
from pathlib import Path

import pytest
from blake3 import blake3
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from obstore.store import MemoryStore

from workspaces.store import Store, StoreError, blocks
from workspaces.store.blobs import Changed
from workspaces.store.blobs.bucket import BucketBlobs
from workspaces.store.blobs.bucket_client import Client, Unreachable
from workspaces.store.blobs.bucket_packs import BucketSink
from workspaces.store.blobs.copies import Copies
from workspaces.store.objects import FILE, FOLDER, RECORD, Row, encode_folder
from workspaces.store.writer import Writer

EXAMPLES = 60 * int(os.environ.get("HANDRAIL_TEST_ROUNDS", "1"))
DAY = 86400.0
HOSTS = 4
PARTS, VARIANTS = 3, 3
GO, KILL, KILL_AFTER, FAIL, LOSE, DELAY = range(6)


class Killed(BaseException):
    """The process is gone: nothing of it runs any more."""


class Stepped(Client):
    """Waits for its turn before each request, and does with it as the scheduler says."""

    def __init__(self, world, host):
        super().__init__(world.bucket, "s3://model/x", patience=0)
        self._world, self._host = world, host

    def _turn(self, request, late=None):
        fate = self._host.wait()
        if fate == KILL:
            raise Killed
        if fate == FAIL:
            raise Unreachable("no answer")
        if fate == DELAY and late:
            self._world.late.append(late)
            raise Unreachable("no answer yet")
        found = request()
        if fate == KILL_AFTER:
            self._host.dead = True
            raise Killed
        if fate == LOSE:
            raise Unreachable("the answer was lost")
        return found

    def _repeated(self, name, request):
        return self._turn(lambda: super(Stepped, self)._repeated(name, request))

    def create(self, name, data):
        return self._turn(lambda: super(Stepped, self).create(name, data))

    def replace(self, name, data, tag):
        return self._turn(lambda: super(Stepped, self).replace(name, data, tag), (name, data, tag))


class Host:
    """One host: its copies stay when what runs on it is killed."""

    def __init__(self, world, number):
        self._world, self._number = world, number
        self.blobs = None
        self.restart()

    def restart(self):
        self.thread, self.dead, self.error = None, False, None
        self._go, self._parked = threading.Semaphore(0), threading.Semaphore(0)
        copies = Copies(self._world.folder / f"host-{self._number}", 1 << 30)
        self.blobs = BucketBlobs(Stepped(self._world, self), copies, self._world.clock)

    def wait(self) -> int:
        if self.dead:
            raise Killed
        if threading.current_thread() is not self.thread:
            return GO
        self._parked.release()
        self._go.acquire()
        return self.fate

    def begin(self, work):
        def run():
            try:
                work(self)
            except Killed:
                pass
            except StoreError:
                pass  # the bucket did not answer, or a purge came between: the caller may try again
            except BaseException as error:
                self.error = error
            finally:
                self.finished = True
                self._parked.release()

        self.finished = False
        self.thread = threading.Thread(target=run, daemon=True)
        self.thread.start()
        self._parked.acquire()

    def step(self, fate):
        self.fate = fate
        if fate == KILL:
            self.dead = True
        self._go.release()
        self._parked.acquire()

    @property
    def is_busy(self) -> bool:
        return self.thread is not None and not self.finished


class World:
    """The bucket, the clock, and the rows: the trees that the database has."""

    def __init__(self, folder):
        self.folder, self.now = folder, time.time()
        self.bucket, self.late = MemoryStore(), []
        self.rows: dict[int, str] = {}
        self._keys = itertools.count()
        BucketBlobs(self.client(), Copies(folder / "first", 1 << 30), self.clock).create()
        self.hosts = [Host(self, number) for number in range(HOSTS)]

    def clock(self):
        return self.now

    def client(self):
        return Client(self.bucket, "s3://model/x", patience=0)

    def deliver(self, number):
        name, data, tag = self.late.pop(number % len(self.late))
        try:
            self.client().replace(name, data, tag)
        except Changed:
            pass

    def write(self, shape, hold):
        def work(host):
            store = Store.open(host.blobs)
            tree = write_tree(store, shape, hold)
            self.rows[next(self._keys)] = tree

        return work

    def collect(self, rewrite):
        def work(host):
            Store.open(host.blobs).gc(lambda: list(self.rows.values()), rewrite=rewrite)

        return work

    def check(self):
        """Read every tree that has a row, byte for byte, as a new host does."""
        with tempfile.TemporaryDirectory() as fresh:
            store = Store.open(BucketBlobs(self.client(), Copies(Path(fresh), 1 << 30), self.clock))
            for tree in set(self.rows.values()):
                assert store.read_back(tree) == []


def part(number, variant):
    """Return a folder object and the files in it, the same each time."""
    files = {b"f%d" % each: b"%d %d %d" % (number, variant, each) * 50 for each in range(2)}
    rows = [
        Row(name, RECORD.pack(FILE, 0, 0o644, 0, 0, 0, len(data), blake3(data).digest()))
        for name, data in files.items()
    ]
    return encode_folder(rows, len(files), sum(map(len, files.values()))), list(files.values())


def write_tree(store, shape, hold):
    """Do as a snapshot does: count on folders that the index has, and store the others with their files."""
    writer = Writer(store.catalog)
    try:
        rows = []
        for number, variant in enumerate(shape):
            folder, files = part(number, variant)
            content = blake3(folder).digest()
            if not writer.holds(content):
                for data in files:
                    writer.add(data)
                writer.add(folder, kind=blocks.META)
            rows.append(Row(b"p%d" % number, RECORD.pack(FOLDER, 0, 0o755, 0, 0, 0, 0, content)))
        top = writer.add(encode_folder(rows, 0, 0), kind=blocks.META)
        root = Row(b"", RECORD.pack(FOLDER, 0, 0o755, 0, 0, 0, 0, top))
        tree = writer.add(encode_folder([root], 0, 0), kind=blocks.META).hex()
        writer.commit(tree, hold)
    except BaseException:
        writer.abort()
        raise
    return tree


@pytest.fixture(autouse=True)
def in_step(monkeypatch):
    """Do the requests of other threads in the actor's own, so that their order is chosen too."""
    monkeypatch.setattr(BucketSink, "_send", lambda sink, work, *args: work(*args))
    monkeypatch.setattr(BucketBlobs, "fetch", lambda blobs, head, needed: None)


FATES = st.sampled_from([GO] * 14 + [KILL, KILL_AFTER, FAIL, LOSE, DELAY])
SHAPES = st.tuples(*[st.integers(0, VARIANTS - 1)] * PARTS)


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_no_order_of_requests_loses_an_object(data):
    with tempfile.TemporaryDirectory() as folder:
        world = World(Path(folder))
        for _ in range(data.draw(st.integers(10, 150), label="steps")):
            act(world, data)
        settle(world)


def act(world, data):
    what = data.draw(st.integers(0, 19), label="what")
    if what == 0:
        world.now += data.draw(st.sampled_from([10.0, 4000.0, DAY + 1]), label="seconds")
    elif what == 1 and world.rows:
        world.rows.pop(data.draw(st.sampled_from(sorted(world.rows)), label="row removed"))
    elif what == 2 and world.late:
        world.deliver(data.draw(st.integers(0, 9), label="delivered"))
    else:
        host = data.draw(st.sampled_from(world.hosts), label="host") if what < 12 else world.hosts[what % HOSTS]
        if host.is_busy:
            host.step(data.draw(FATES, label="fate"))
        elif host.dead:
            host.restart()
        elif data.draw(st.integers(0, 3), label="work"):
            host.begin(world.write(data.draw(SHAPES, label="shape"), 3600.0))
        else:
            host.begin(world.collect(data.draw(st.integers(0, 5), label="rewrite") == 0))
        assert host.error is None, host.error
        if not host.is_busy:
            world.check()


def settle(world):
    """End all work, then collect until only what is needed is left."""
    for host in world.hosts:
        while host.is_busy:
            host.step(GO)
        assert host.error is None, host.error
    while world.late:
        world.deliver(0)
    world.check()
    store = Store.open(BucketBlobs(world.client(), Copies(world.folder / "last", 1 << 30), world.clock))
    for _ in range(3):
        world.now += DAY + 1
        store.gc(lambda: list(world.rows.values()))
    world.check()
    assert store.verify(full=True).problems == []
    head = Store.open(store.blobs).catalog.view.head
    client = world.client()
    assert {found.name for found in client.ls("packs")} == set(head.names.values())
    assert {found.name for found in client.ls("index")} == set(head.segments)
    assert head.gone == {}
