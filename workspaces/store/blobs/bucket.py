"""A store in an S3 bucket that many hosts share.

| object | what |
| --- | --- |
| `head` | as in a folder, with the store's id; replaced only where it still has the tag that was read (If-Match) |
| `packs/HASH-NONCE.pack` | blocks, written once; no name is ever used again, so that a late removal hits nothing new |
| `index/HASH-NONCE.idx` | index segments, written once |

There is no lock. Who loses the race for the head reads it again, adds its own packs, and tries again. A collection
removes packs a day after they left the head: until then readers and writers with an older head still find them.
"""

from __future__ import annotations

import errno
import os
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from blake3 import blake3

from ..errors import Absent, Damaged, StoreError
from ..index.head import Head
from ..sealing import plain_segment, sealed_segment
from . import Blobs, Changed, Read
from .bucket_client import Client, Unreachable
from .bucket_packs import BucketPack, BucketSink, WholePack
from .copies import Copies
from .proof import prove

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

GRACE_SECONDS = 86400.0
SMALL_BYTES = 4 << 20
_MOST_SMALL = 16
_FETCHERS = 4
_CACHE_BYTES = 4 << 30
_PAUSE_SECONDS = 0.2
_KEEP_SECONDS = 900.0


class BucketBlobs(Blobs):
    """The objects below one prefix of a bucket, with copies in a folder of this host."""

    shared = True

    def __init__(self, client: Client, copies: Copies, clock: Callable[[], float] | None = None):
        self.client, self.copies, self.clock = client, copies, clock or time.time
        self.address = client.address
        self.caches = copies.folder / "stat"
        self._id = ""
        self._coming: dict[str, Future] = {}  # packs that are being fetched
        self._pool: ThreadPoolExecutor | None = None

    @classmethod
    def at(
        cls,
        address: str,
        *,
        cache: str | os.PathLike | None = None,
        cache_bytes: int | None = None,
        clock: Callable[[], float] | None = None,
    ) -> BucketBlobs:
        """Return the store at `s3://BUCKET/PREFIX`, with copies of up to `cache_bytes` below the folder `cache`."""
        client = Client.at(address)
        above = Path(cache) if cache else Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "handrail"
        endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL") or ""
        name = blake3(f"{endpoint}\n{address.rstrip('/')}".encode()).hexdigest(16)
        return cls(client, Copies(above / name, _CACHE_BYTES if cache_bytes is None else cache_bytes), clock)

    # -- the store -------------------------------------------------------------------------------------------------

    def create(self) -> None:
        prove(self.client)
        if self.client.ls("packs"):
            raise StoreError(f"{self.address} is not empty")
        try:
            self.client.create("head", Head(id=os.urandom(16).hex()).encode())
        except Changed:
            raise StoreError(f"{self.address} is not empty") from None
        self._forget_copies()

    def identity(self) -> str:
        read = self.known_head()
        try:
            self._id = Head.decode((read or self.head()).data).id
        except Damaged:
            if not read:
                raise
            self._id = Head.decode(self.head().data).id
        return self._id

    def writing(self, *, wait=None, cancel=None):
        return nullcontext()

    # -- the head --------------------------------------------------------------------------------------------------

    def known_head(self) -> Read | None:
        return self.copies.head()

    def head(self, known: Read | None = None) -> Read:
        try:
            found = self.client.get("head", known.tag if known else "")
        except FileNotFoundError:
            self._forget_copies()
            raise Absent(f"there is no store at {self.address}") from None
        return self._keep(Read(*found)) if found else known

    def _keep(self, read: Read) -> Read:
        if self._id and f'"id":"{self._id}"'.encode() not in read.data:
            self._forget_copies()
            raise StoreError(f"{self.address} holds another store than before")
        before = self.copies.head()
        self.copies.keep_head(read)
        if before and _collected(before) != _collected(read):
            self._forget_removed(Head.decode(read.data))  # also a value that was purged on another host
        return read

    def swap_head(self, read: Read, data: bytes) -> Read:
        deadline = time.monotonic() + self.client.patience
        while True:
            try:
                tag = self.client.replace("head", data, read.tag) if read.tag else self.client.create("head", data)
                return self._keep(Read(data, tag))
            except Unreachable:
                if time.monotonic() >= deadline:
                    raise
                time.sleep(_PAUSE_SECONDS)

    def _change(self, change: Callable[[Head], Head]) -> Head:
        """Replace the head by a changed one, however often others do the same; `change` may return it as it is."""
        read = self.head(self.known_head())
        while True:
            head = Head.decode(read.data)
            changed = change(head)
            if changed is head:
                return head
            try:
                self.swap_head(read, changed._replace(generation=head.generation + 1).encode())
                return changed
            except Changed:
                read = self.head()

    def remains(self) -> tuple[Read, Head]:
        listed = {found.name: found.size for found in self.client.ls("packs")}
        read = Read(b"", "")
        with suppress(FileNotFoundError):
            read = Read(*self.client.get("head"))
        known = None
        for data in (read.data, (self.known_head() or read).data):
            with suppress(StoreError):
                known = known or Head.decode(data)
        if known is None and not listed:
            raise Absent(f"there is no store at {self.address}")
        known = known or Head(id=os.urandom(16).hex())
        gone = {name for name in known.gone if name.startswith("packs/")}
        numbers = {name: number for number, name in known.names.items()}
        next_pack = max([known.next_pack, *(number + 1 for number in numbers.values())])
        for name in sorted(listed):
            if name not in numbers and f"packs/{name}" not in gone:
                numbers[name], next_pack = next_pack, next_pack + 1
        there = {number: name for name, number in numbers.items() if name in listed}
        head = Head(
            generation=known.generation,
            collected=known.collected + 1,  # objects may have left the index
            next_pack=next_pack,
            packs={number: listed[name] for number, name in there.items()},
            id=known.id,
            names=there,
            gone=known.gone,
            key=known.key,
        )
        return read, head

    # -- reading ---------------------------------------------------------------------------------------------------

    def segment(self, name: str) -> Path:
        if path := self.copies.find("index", name):
            return path
        data, _ = self.client.get(f"index/{name}")
        if blake3(data).hexdigest(16) != name.partition("-")[0]:
            raise Damaged(f"index segment {name} does not match its name; `reindex` rebuilds it from the packs")
        return self.copies.put("index", name, plain_segment(self.keys, data, f"index segment {name}"))

    def pack(self, head: Head, number: int) -> BucketPack:
        return BucketPack(self, self.name_of(head, number), head.packs[number])

    def original(self, head: Head, number: int, *, full: bool):
        name = self.name_of(head, number)
        return WholePack(self, name) if full else BucketPack(self, name, None)

    def name_of(self, head: Head, number: int) -> str:
        if name := head.names.get(number):
            return name
        raise FileNotFoundError(errno.ENOENT, "a collection removed it", f"{self.address}: pack {number:08d}")

    def whole(self, name: str) -> Path:
        """Return a local copy of a pack, fetched if there is none."""
        if coming := self._coming.get(name):
            with suppress(OSError, StoreError):
                coming.result()
        return self.copies.find("packs", name) or self.copies.put("packs", name, self.client.get(f"packs/{name}")[0])

    def is_coming(self, name: str) -> bool:
        return name in self._coming

    def fetch(self, head: Head, needed: dict[int, int]) -> None:
        left = self.copies.most_bytes // 2
        for number in sorted(needed):
            name, size = head.names.get(number), head.packs.get(number, 0)
            if name is None or needed[number] < size / 4 or name in self._coming or size > left:
                continue
            if self.copies.find("packs", name) is None:
                left -= size
                self._pool = self._pool or ThreadPoolExecutor(_FETCHERS, thread_name_prefix="store-fetch")
                self._coming[name] = self._pool.submit(self._fetched, name)

    def _fetched(self, name: str) -> None:
        try:
            self.copies.put("packs", name, self.client.get(f"packs/{name}")[0])
        finally:
            self._coming.pop(name, None)

    def stored_bytes(self, head: Head) -> int:
        return sum(head.packs.values()) + sum(os.path.getsize(self.segment(name)) for name in head.segments)

    # -- writing ---------------------------------------------------------------------------------------------------

    def sink(self, head: Head) -> BucketSink:
        return BucketSink(self, head)

    def put_segment(self, data: bytes) -> str:
        name, sealed = self.named_segment(data)
        self.client.put(f"index/{name}", sealed)
        self.copies.put("index", name, data)
        return name

    def named_segment(self, data: bytes) -> tuple[str, bytes]:
        """Return (a name, the bytes that the bucket gets) of an index segment."""
        sealed = sealed_segment(self.keys.newest(), data)
        return f"{blake3(sealed).hexdigest(16)}-{os.urandom(4).hex()}.idx", sealed

    def too_small(self, packs: dict[int, int]) -> set[int]:
        small = {number for number, size in packs.items() if size < SMALL_BYTES}
        return small if len(small) > _MOST_SMALL else set()

    # -- what left the head ----------------------------------------------------------------------------------------

    def orphans(self, head: Head) -> set[str]:
        before = self.clock() - GRACE_SECONDS
        found = [(folder, each) for folder in ("packs", "index") for each in self.client.ls(folder)]
        old = {f"{folder}/{each.name}" for folder, each in found if each.at < before}
        return old - _named(head) - head.gone.keys()

    def leaving(self, before: Head, after: Head, orphans: Iterable[str] = ()) -> Head:
        now = self.clock()
        left = (_named(before) | set(orphans)) - _named(after)
        return after._replace(gone={**after.gone, **dict.fromkeys(left - after.gone.keys(), now)})

    def tidy(self, after: Head) -> None:
        pass  # others may be reading it

    def remove_gone(self, after: Head, *, at_once: bool = False) -> None:
        now = self.clock()
        due = {name for name, at in after.gone.items() if at_once or at <= now - GRACE_SECONDS} - _named(after)
        if due:
            # First the objects and then the note of them, so that nothing is left behind if this is cut off.
            self.client.delete(sorted(due))
            self._change(lambda head: _without(head, due))
        self._forget_removed(after)

    # -- holds -----------------------------------------------------------------------------------------------------

    def hold(self, tree_id: str, seconds: float) -> None:
        now = self.clock()

        def change(head: Head) -> Head:
            if head.holds.get(tree_id, 0.0) >= now + seconds:
                return head
            # A little longer than requested, so that a caller that renews every few seconds seldom has to write.
            return head._replace(holds={**head.holds, tree_id: now + seconds + min(60.0, seconds)})

        self._change(change)

    def release(self, tree_id: str) -> None:
        def change(head: Head) -> Head:
            if tree_id not in head.holds:
                return head
            return head._replace(holds={tree: until for tree, until in head.holds.items() if tree != tree_id})

        self._change(change)

    @contextmanager
    def keeping(self, tree_id: str, released: Callable[[], None]):
        """Hold the tree, and again every five minutes; the hold outlasts the context by a quarter of an hour."""
        self.hold(tree_id, _KEEP_SECONDS)
        over = threading.Event()

        def renew() -> None:
            while not over.wait(_KEEP_SECONDS / 3):
                with suppress(StoreError, OSError):  # the next one comes before the hold ends
                    if tree_id not in Head.decode(self.head().data).holds:
                        released()
                        return
                    self.hold(tree_id, _KEEP_SECONDS)

        threading.Thread(target=renew, name="store-keep", daemon=True).start()
        try:
            yield
        finally:
            over.set()

    def held(self, head: Head, at: float | None = None) -> set[bytes]:
        at = self.clock() if at is None else at
        return {bytes.fromhex(tree) for tree, until in head.holds.items() if until > at}

    def _forget_removed(self, head: Head) -> None:
        for folder in ("packs", "index"):
            self.copies.forget(folder, {name.rpartition("/")[2] for name in _named(head) if name.startswith(folder)})

    def _forget_copies(self) -> None:
        with suppress(FileNotFoundError):
            os.unlink(self.copies.folder / "head")
        for folder in ("packs", "index"):
            self.copies.forget(folder, ())


def _collected(read: Read) -> bytes:
    return read.data.partition(b'"collected":')[2].partition(b",")[0]


def _named(head: Head) -> set[str]:
    return {f"packs/{name}" for name in head.names.values()} | {f"index/{name}" for name in head.segments}


def _without(head: Head, due: set[str]) -> Head:
    if not due & head.gone.keys():
        return head
    gone = {name: at for name, at in head.gone.items() if name not in due}
    return head._replace(gone=gone, collected=head.collected + 1)
