"""What is different on a bucket: many hosts without a lock, copies that may be deleted, removal after a day."""

import itertools
import os
import shutil
import threading
import time
from contextlib import suppress

import obstore
import pytest
from obstore.exceptions import BaseError
from obstore.store import MemoryStore

from tests.support.buckets import s3rver
from workspaces.store import LocalTree, Missing, Store, StoreError
from workspaces.store.blobs import Changed
from workspaces.store.blobs.bucket import BucketBlobs
from workspaces.store.blobs.bucket_client import Client, Unreachable
from workspaces.store.blobs.copies import Copies
from workspaces.store.blobs.proof import Unfit, prove
from workspaces.store.index.rebuild import reindex
from workspaces.store.writer import Writer

DAY = 86400.0


class Hosts:
    """Hosts that share a bucket and a clock; each has its own copies. The bucket is in memory, with real semantics."""

    def __init__(self, folder):
        self.folder, self.now, self._numbers = folder, time.time(), itertools.count()
        self.bucket = MemoryStore()
        self.client = Client(self.bucket, "s3://memory/x", patience=0)
        BucketBlobs(self.client, self._copies(), self.clock).create()

    def clock(self) -> float:
        return self.now

    def _copies(self):
        return Copies(self.folder / f"copies-{next(self._numbers)}", 1 << 30)

    def blobs(self) -> BucketBlobs:
        return BucketBlobs(Client(self.bucket, "s3://memory/x", patience=0), self._copies(), self.clock)

    def open(self) -> Store:
        return Store.open(self.blobs())

    def objects(self) -> set[str]:
        return {f"{folder}/{found.name}" for folder in ("packs", "index") for found in self.client.ls(folder)}


@pytest.fixture
def hosts(tmp_path):
    return Hosts(tmp_path)


def content(store, tree):
    return {entry.name: store.read(tree, entry.name) for entry in store.ls(tree) if entry.type == "file"}


# -- the proof -----------------------------------------------------------------------------------------------------


class Careless(Client):
    """A server that keeps all but one promise."""

    def __init__(self, broken):
        super().__init__(MemoryStore(), "s3://careless/x", patience=0)
        self._broken = broken

    def create(self, name, data):
        if self._broken == "create":
            self.put(name, data)
            return self.get(name)[1]
        return super().create(name, data)

    def replace(self, name, data, tag):
        return super().replace(name, data, self.get(name)[1] if self._broken == "replace" else tag)

    def ls(self, folder):
        return super().ls(folder)[:1] if self._broken == "listing" else super().ls(folder)

    def get_range(self, name, start, length):
        return self.get(name)[0] if self._broken == "range" else super().get_range(name, start, length)

    def exists(self, name):
        return self._broken == "delete" or super().exists(name)


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        ("create", "overwrote an object that was to be created only if absent"),
        ("replace", "replaced an object although it had changed"),
        ("listing", "a listing does not have what was written before"),
        ("range", "does not return the part of an object"),
        ("delete", "still has an object that was deleted"),
    ],
)
def test_a_bucket_that_breaks_a_promise_is_refused_in_words(broken, words):
    with pytest.raises(Unfit, match=words):
        prove(Careless(broken))


def test_several_winners_of_one_race_are_refused():
    class Slow(Client):
        """Looks first and writes then, as a server without atomic creation does."""

        begun = threading.Barrier(8)

        def create(self, name, data):
            there = self.exists(name)
            if name.endswith("many"):
                self.begun.wait()
            if there:
                raise Changed(name)
            self.put(name, data)
            return self.get(name)[1]

    with pytest.raises(Unfit, match="8 of 8 writers at once"):
        prove(Slow(MemoryStore(), "s3://slow/x", patience=0))


@pytest.fixture
def answers_get_lost(monkeypatch):
    """The answer to each first put gets lost, and obstore repeats the put."""
    put = obstore.put

    def repeated(*what, **how):
        with suppress(BaseError):
            put(*what, **how)
        return put(*what, **how)

    monkeypatch.setattr(obstore, "put", repeated)


def test_a_writer_does_not_lose_to_its_own_first_try(hosts, work, answers_get_lost, tmp_path):
    other = Client(MemoryStore(), "s3://memory/other", patience=0)
    BucketBlobs(other, Copies(tmp_path / "of-other", 1 << 30)).create()  # with its proof, in which eight race
    with pytest.raises(Changed):
        other.create("head", b"another one's")
    store = hosts.open()
    tree = store.snapshot(LocalTree(work)).tree
    assert content(hosts.open(), tree) == content(store, tree)
    with pytest.raises(Changed):
        hosts.client.replace("head", b"another one's", "a tag of before")


def test_a_sound_bucket_passes_and_nothing_is_left(s3):
    client = s3.client("proof-of-it")
    prove(client)
    assert client.ls("proof") == []


def test_s3rver_is_refused(tmp_path, require, monkeypatch):
    with s3rver(tmp_path / "s3rver", require) as bucket:
        for name, value in bucket.environ.items():
            monkeypatch.setenv(name, value)
        with pytest.raises(StoreError, match="cannot keep snapshots: it overwrote"):
            Store.create(bucket.address("x"), cache=tmp_path / "copies")


# -- several hosts -------------------------------------------------------------------------------------------------


def test_two_that_write_at_once_both_count(hosts, work, tmp_path):
    one, two = hosts.open(), hosts.open()
    other = tmp_path / "other"
    other.mkdir()
    (other / "a").write_bytes(os.urandom(3000))
    second = []
    first = one.snapshot(LocalTree(work), before_commit=lambda: second.append(two.snapshot(LocalTree(other)).tree))
    for store in (one, two, hosts.open()):
        assert content(store, first.tree)[b"README.md"] == b"# Words\n"
        assert content(store, second[0]) == {b"a": (other / "a").read_bytes()}
    found = hosts.open().verify(full=True)
    assert (found.problems, found.packs, found.trees) == ([], 2, 2)


def test_one_wins_against_many_that_commit_between(hosts, work, tmp_path):
    one, two, other = hosts.open(), hosts.open(), tmp_path / "other"
    other.mkdir()
    trees = []

    def between():
        for number in range(15):  # more than there may be segments: the others fold them
            (other / "a").write_text(str(number))
            trees.append(two.snapshot(LocalTree(other)).tree)

    trees.append(one.snapshot(LocalTree(work), before_commit=between).tree)
    fresh = hosts.open()
    assert fresh.verify(full=True).problems == []
    assert all(fresh.catalog.holds(bytes.fromhex(tree)) for tree in trees)


def test_what_a_collection_took_from_under_a_snapshot_is_written_again(hosts, work):
    one, two = hosts.open(), hosts.open()
    old = one.snapshot(LocalTree(work), hold=0).tree
    hosts.now += 10
    (work / "README.md").write_text("new words")
    taken = one.snapshot(LocalTree(work), before_commit=lambda: two.gc([]), hold=0).tree
    fresh = hosts.open()
    assert fresh.verify(full=True).problems == []
    assert fresh.read(taken, b"src/deep/data.bin") == (work / "src" / "deep" / "data.bin").read_bytes()
    with pytest.raises(Missing):
        fresh.ls(old)


def test_an_unchanged_tree_that_was_collected_meanwhile_is_there_again(hosts, work, settle):
    one, two = hosts.open(), hosts.open()
    old = one.snapshot(LocalTree(work), hold=0).tree
    settle()
    assert one.snapshot(LocalTree(work), hold=60, before_commit=lambda: two.gc([], since=hosts.now + 1)).tree == old
    fresh = hosts.open()
    assert (fresh.verify(full=True).problems, len(fresh.ls(old))) == ([], 4)


def test_a_selection_from_a_tree_that_is_collected_meanwhile_is_whole(hosts, work, monkeypatch):
    one, two = hosts.open(), hosts.open()
    old = one.snapshot(LocalTree(work), hold=0).tree
    hosts.now += 10
    settled = BucketBlobs.swap_head
    monkeypatch.setattr(BucketBlobs, "swap_head", lambda blobs, *how: (first(), settled(blobs, *how))[1])

    def first():
        monkeypatch.setattr(BucketBlobs, "swap_head", settled)
        two.gc([])

    made = one.select(old, [b"src"])
    fresh = hosts.open()
    assert fresh.verify(full=True).problems == []
    assert fresh.read(made.tree, b"src/main.py") == b"print('hello')\n"


def test_a_collection_goes_on_with_what_was_committed_meanwhile(hosts, work, tmp_path, monkeypatch):
    one, two = hosts.open(), hosts.open()
    one.snapshot(LocalTree(work), hold=0)
    hosts.now += 10
    other = tmp_path / "other"
    other.mkdir()
    (other / "data.bin").write_bytes((work / "src" / "deep" / "data.bin").read_bytes())  # known, and dead so far
    settled, taken = BucketBlobs.swap_head, []
    monkeypatch.setattr(BucketBlobs, "swap_head", lambda blobs, *how: (first(), settled(blobs, *how))[1])

    def first():
        monkeypatch.setattr(BucketBlobs, "swap_head", settled)
        taken.append(two.snapshot(LocalTree(other)).tree)

    done = one.gc([])
    assert (done.trees, done.removed_objects > 3) == (1, True)
    fresh = hosts.open()
    assert fresh.verify(full=True).problems == []
    assert content(fresh, taken[0]) == {b"data.bin": (other / "data.bin").read_bytes()}


def test_an_answer_that_was_lost_is_no_second_commit(hosts, work, monkeypatch):
    store = hosts.open()
    replace, failed = Client.replace, []

    def lossy(client, name, data, tag):
        found = replace(client, name, data, tag)
        if not failed:
            failed.append(name)
            raise Unreachable("the answer was lost")
        return found

    monkeypatch.setattr(Client, "replace", lossy)
    store.blobs.client.patience = 5
    taken = store.snapshot(LocalTree(work)).tree
    found = hosts.open().verify(full=True)
    assert (found.problems, found.packs, failed) == ([], 1, ["head"])
    assert hosts.open().read(taken, b"README.md") == b"# Words\n"


def test_a_commit_that_may_still_arrive_keeps_its_packs(hosts, work, monkeypatch):
    store, replace, late = hosts.open(), Client.replace, []

    def cut_off(client, name, data, tag):
        late.append((name, data, tag))
        raise Unreachable("no answer")

    monkeypatch.setattr(Client, "replace", cut_off)
    with pytest.raises(StoreError, match="no answer"):
        store.snapshot(LocalTree(work))
    monkeypatch.setattr(Client, "replace", replace)
    replace(hosts.client, *late[0])
    assert hosts.open().verify(full=True).problems == []


# -- what is removed, and when -------------------------------------------------------------------------------------


def test_packs_are_removed_a_day_after_they_left_the_head(hosts, work):
    store, reader = hosts.open(), hosts.open()
    old = store.snapshot(LocalTree(work), hold=0).tree
    reader.catalog.refresh()
    before = hosts.objects()
    hosts.now += 10
    store.gc([])
    assert before <= hosts.objects()
    assert reader.read(old, b"README.md") == b"# Words\n"  # by the head that it read
    hosts.now += DAY - 20
    store.gc([])
    assert before <= hosts.objects()
    hosts.now += 30
    store.gc([])
    assert hosts.objects() == set()
    assert hosts.open().catalog.view.head.gone == {}


def test_what_a_dead_writer_left_is_removed_after_a_day(hosts, work):
    store = hosts.open()
    kept = store.snapshot(LocalTree(work)).tree
    store.blobs.client.put("packs/00-00.pack", b"left behind")
    store.gc([kept])
    assert hosts.open().catalog.view.head.gone == {}  # it may be of a writer that is at work
    hosts.now += DAY + 1
    store.gc([kept])
    assert "packs/00-00.pack" in hosts.objects()
    hosts.now += DAY + 1
    store.gc([kept])
    assert "packs/00-00.pack" not in hosts.objects()
    assert hosts.open().read(kept, b"README.md") == b"# Words\n"


@pytest.mark.parametrize("days", [0, 2])
def test_a_writer_that_slept_while_its_packs_were_taken_for_leftovers_sends_them_again(hosts, work, days, monkeypatch):
    one, two, flush, slept = hosts.open(), hosts.open(), Writer.flush, []
    one.snapshot(LocalTree(work), hold=0)
    (work / "large").write_bytes(os.urandom(2_000_000))

    def flush_and_sleep(writer):
        flush(writer)
        if writer.catalog is one.catalog and not slept:
            slept.append(days)
            writer.sink.settle()
            hosts.now += DAY + 1
            two.gc([])
            hosts.now += days * DAY
            two.gc([])

    monkeypatch.setattr(Writer, "flush", flush_and_sleep)
    taken = one.snapshot(LocalTree(work)).tree
    fresh = hosts.open()
    assert (slept, fresh.verify(full=True).problems) == ([days], [])
    assert fresh.read(taken, b"large") == (work / "large").read_bytes()
    hosts.now += 3 * DAY
    fresh.gc([taken])
    assert hosts.open().verify(full=True).problems == []


def test_a_writer_that_slept_for_days_on_what_is_gone_says_so(hosts, work, monkeypatch):
    one, two = hosts.open(), hosts.open()
    one.snapshot(LocalTree(work), hold=0)
    (work / "README.md").write_text("new words")
    one.blobs.copies.forget("packs", ())
    one = Store.open(one.blobs)  # which has no pack open

    def sleep():
        hosts.now += 10
        two.gc([])
        hosts.now += DAY
        two.gc([])

    with pytest.raises(StoreError, match="a collection removed what this builds on"):
        one.snapshot(LocalTree(work), before_commit=sleep, thorough=True)
    taken = one.snapshot(LocalTree(work)).tree
    fresh = hosts.open()
    assert (fresh.verify(full=True).problems, fresh.read(taken, b"README.md")) == ([], b"new words")


def test_small_packs_are_folded(hosts, work):
    store, kept = hosts.open(), []
    for number in range(20):
        (work / "README.md").write_text(str(number))
        kept.append(store.snapshot(LocalTree(work), hold=0).tree)
    assert len(store.catalog.view.head.packs) == 20
    store.gc(kept)
    assert len(store.catalog.view.head.packs) == 1
    assert [hosts.open().read(tree, b"README.md") for tree in kept] == [b"%d" % number for number in range(20)]


def test_holds_are_by_the_shared_clock(hosts, work):
    store, other = hosts.open(), hosts.open()
    taken = store.snapshot(LocalTree(work), hold=100).tree
    hosts.now += 99
    other.gc([])
    assert hosts.open().read(taken, b"README.md") == b"# Words\n"
    other.protect(taken, 1000)
    hosts.now += 500
    store.gc([])
    other.release(taken)
    store.gc([])
    with pytest.raises(Missing):
        hosts.open().ls(taken)


# -- copies on this host -------------------------------------------------------------------------------------------


def test_copies_can_be_deleted_at_any_time(in_bucket, work, tmp_path):
    address, copies = in_bucket(), tmp_path / "copies"
    store = Store.create(address, cache=copies)
    taken = store.snapshot(LocalTree(work)).tree
    shutil.rmtree(copies)
    fresh = Store.open(address, cache=copies)
    assert content(fresh, taken)[b"README.md"] == b"# Words\n"
    assert fresh.read(taken, b"src/deep/data.bin") == (work / "src" / "deep" / "data.bin").read_bytes()
    assert fresh.snapshot(LocalTree(work)).tree == taken


def test_large_packs_are_read_in_parts_and_restored_whole(in_bucket, work, tmp_path, monkeypatch):
    store = Store.create(in_bucket(), cache=tmp_path / "copies")
    for number in range(12):
        (work / f"f{number:02}").write_bytes(os.urandom(900_000))
    taken = store.snapshot(LocalTree(work)).tree
    fresh = Store.open(store.path, cache=tmp_path / "others")
    whole = []
    get = Client.get
    monkeypatch.setattr(Client, "get", lambda client, name, *how: (whole.append(name), get(client, name, *how))[1])
    assert fresh.read(taken, b"f03") == (work / "f03").read_bytes()
    assert [name for name in whole if name.startswith("packs/")] == []
    (tmp_path / "out").mkdir()
    fresh.restore(taken, LocalTree(tmp_path / "out"), journal=tmp_path / "journal")
    assert len([name for name in whole if name.startswith("packs/")]) == 1
    assert fresh.compare(taken, LocalTree(tmp_path / "out"), full=True).differ == []


def test_a_purge_on_one_host_removes_the_copies_of_another(hosts, work):
    one, two = hosts.open(), hosts.open()
    secret = os.urandom(3000)
    (work / "secret").write_bytes(secret)
    gone = one.snapshot(LocalTree(work), hold=0).tree
    assert two.read(gone, b"secret") == secret
    (work / "secret").unlink()
    kept = one.snapshot(LocalTree(work), hold=0).tree
    hosts.now += 10
    one.gc([kept], rewrite=True)
    two.compare(kept, LocalTree(work))  # reads the head, as each snapshot does
    assert two.read(kept, b"README.md") == b"# Words\n"
    for host in (one, two):
        copies = (host.blobs.copies.folder / "packs").iterdir()
        assert not any(secret[:200] in path.read_bytes() for path in copies)


def test_copies_are_bounded(tmp_path):
    copies = Copies(tmp_path / "copies", 1000)
    for number in range(10):
        os.utime(copies.put("packs", str(number), bytes(300)), (number, number))
    assert sorted(path.name for path in (tmp_path / "copies" / "packs").iterdir()) == ["7", "8", "9"]


# -- damage and loss -----------------------------------------------------------------------------------------------


def only_pack(store) -> str:
    (found,) = store.blobs.client.ls("packs")
    return f"packs/{found.name}"


def test_a_damaged_pack_is_found_although_the_copy_here_is_whole(hosts, work):
    store = hosts.open()
    taken = store.snapshot(LocalTree(work)).tree
    data = bytearray(hosts.client.get(only_pack(store))[0])
    data[200_000] ^= 4
    hosts.client.put(only_pack(store), bytes(data))
    assert store.read(taken, b"src/deep/data.bin") == (work / "src" / "deep" / "data.bin").read_bytes()
    found = store.verify(full=True)
    assert (found.ok, {path for problem in found.problems for _, path in problem.hurts}) >= (
        False,
        {b"src/deep/data.bin"},
    )
    with pytest.raises(StoreError):
        hosts.open().read_back(taken)


def test_a_lost_pack_is_named(hosts, work):
    store = hosts.open()
    taken = store.snapshot(LocalTree(work)).tree
    hosts.client.delete([name := only_pack(store)])
    found = store.verify()
    assert (found.ok, found.problems[0].where, found.problems[0].what) == (False, name, "it is not in the bucket")
    assert {tree for problem in found.problems for tree, _ in problem.hurts} <= {taken}


@pytest.mark.parametrize("harm", ["lost", "damaged", "no segments"])
def test_a_head_and_index_are_made_anew_from_the_packs(hosts, work, harm):
    store = hosts.open()
    taken = store.snapshot(LocalTree(work)).tree
    if harm == "no segments":
        hosts.client.delete([name for name in hosts.objects() if name.startswith("index/")])
    elif harm == "lost":
        hosts.client.delete(["head"])
    else:
        hosts.client.put("head", b"nonsense")
    with pytest.raises(StoreError, match=r"there is no store at|head is damaged|names missing index segments"):
        hosts.open()
    done = reindex(hosts.blobs())
    assert (done.packs, done.trees, done.dropped) == (1, 1, 0)
    fresh = hosts.open()
    assert (fresh.verify(full=True).problems, fresh.read(taken, b"README.md")) == ([], b"# Words\n")
    assert fresh.snapshot(LocalTree(work)).tree == taken


def test_packs_without_a_head_are_not_covered_by_a_new_store(hosts, work):
    hosts.open().snapshot(LocalTree(work))
    hosts.client.delete(["head"])
    with pytest.raises(StoreError, match="is not empty"):
        Store.create(hosts.blobs())


def test_another_store_in_its_place_is_refused(hosts, work):
    store = hosts.open()
    store.snapshot(LocalTree(work))
    hosts.client.delete(["head", *hosts.objects()])
    Store.create(hosts.blobs())
    with pytest.raises(StoreError, match="holds another store than before"):
        store.snapshot(LocalTree(work))


def test_a_bucket_that_does_not_answer_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "a")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "b")
    monkeypatch.setattr("workspaces.store.blobs.bucket_client.PATIENCE_SECONDS", 0)
    with pytest.raises(StoreError, match="s3://nobody/x does not answer"):
        Store.create("s3://nobody/x", cache=tmp_path)
    with pytest.raises(StoreError, match="does not name a bucket"):
        Store.open("s3:///x", cache=tmp_path)


def test_a_wrong_key_is_named(s3, tmp_path, monkeypatch):
    for name, value in (s3.environ | {"AWS_SECRET_ACCESS_KEY": "wrong"}).items():
        monkeypatch.setenv(name, value)
    with pytest.raises(StoreError, match="refused the key"):
        Store.create(s3.address("refused"), cache=tmp_path)
