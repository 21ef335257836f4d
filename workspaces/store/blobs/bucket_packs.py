"""Packs of a bucket: reading one in parts or whole, and writing those of one transaction."""

from __future__ import annotations

import os
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from blake3 import blake3

from ..errors import StoreError
from . import Numbered, Sink
from .copies import private
from .folder import FilePack

if TYPE_CHECKING:
    from ..index.head import Head
    from .bucket import BucketBlobs

PACK_BYTES = 32 << 20
WHOLE_BYTES = 4 << 20  # packs up to this length are fetched whole, and others once a quarter of them was asked for
_UPLOADS = 3


class BucketPack:
    """A pack of a bucket. Without its `size` it is read for a check: never from a copy on this host."""

    def __init__(self, blobs: BucketBlobs, name: str, size: int | None):
        self.name, self._blobs, self._size = name, blobs, size
        self._file: FilePack | None = None
        self._asked = 0

    def read(self, offset: int, length: int) -> bytes:
        if self._size is None:
            length = min(length, self.size() - offset)
            return self._blobs.client.get_range(f"packs/{self.name}", offset, length) if length > 0 else b""
        if self._file is None:
            self._asked += length
            if not self._worth_fetching():
                return self._blobs.client.get_range(f"packs/{self.name}", offset, min(length, self._size - offset))
            self._file = self._opened()
        return self._file.read(offset, length)

    def _opened(self) -> FilePack:
        while True:
            path = self._blobs.whole(self.name)  # raises FileNotFoundError where the bucket has it no more
            with suppress(FileNotFoundError):  # the copy made room for another meanwhile
                return FilePack(path)

    def _worth_fetching(self) -> bool:
        if self._size <= WHOLE_BYTES or self._asked > self._size / 4:
            return True
        return self._blobs.is_coming(self.name) or self._blobs.copies.find("packs", self.name) is not None

    def size(self) -> int:
        if not hasattr(self, "_there"):
            self._there = self._blobs.client.size(f"packs/{self.name}")
        return self._there


class WholePack:
    """All bytes of a pack as the bucket has them now."""

    def __init__(self, blobs: BucketBlobs, name: str):
        self.name = name
        self._data, _ = blobs.client.get(f"packs/{name}")

    def read(self, offset: int, length: int) -> bytes:
        return self._data[offset : offset + length]

    def size(self) -> int:
        return len(self._data)


class _Made:
    """A pack of this transaction: its name, length and local file, which stays until the commit."""

    def __init__(self, name: str, size: int, path: Path):
        self.name, self.size, self.path = name, size, path


class BucketSink(Sink):
    """Writes packs to local files and sends them while the transaction goes on. Numbers begin at the head's next."""

    def __init__(self, blobs: BucketBlobs, head: Head):
        self._blobs, self._first = blobs, head.next_pack
        self.closed: set[int] = set()
        self._made: list[_Made] = []
        self._names: set[str] = set()  # of all objects that were sent, by their keys
        self._file, self._path, self._hash, self._at = None, Path(), None, 0
        self._pool: ThreadPoolExecutor | None = None
        self._sent: list[Future] = []

    def append(self, block: bytes) -> tuple[int, int]:
        if self._file is not None and self._at >= PACK_BYTES:
            self.flush()
        if self._file is None:
            self._path, self._hash, self._at = self._blobs.copies.staged(), blake3(), 0
            self._file = open(self._path, "xb", opener=private)  # noqa: SIM115 - until flush or close
        at = self._at
        self._file.write(block)
        self._hash.update(block)
        self._at += len(block)
        return self._first + len(self._made), at

    def flush(self) -> None:
        if self._file is None:
            return
        self._file.close()
        self._file = None
        made = _Made("", self._at, self._path)
        self._made.append(made)
        self._name(made, self._hash.hexdigest(16))

    def _name(self, made: _Made, digest: str) -> None:
        made.name = f"{digest}-{os.urandom(4).hex()}.pack"
        self._names.add(f"packs/{made.name}")
        self._send(self._send_pack, made.name, made.path)

    def _send(self, work, *args) -> None:
        if self._pool is None:
            self._pool = ThreadPoolExecutor(_UPLOADS, thread_name_prefix="store-send")
        waiting = [sent for sent in self._sent if not sent.done()]
        if len(waiting) > _UPLOADS:
            waiting[0].result()  # a fast disk must not outrun the network without a bound
        self._sent.append(self._pool.submit(work, *args))

    def _send_pack(self, name: str, path: Path) -> None:
        self._blobs.client.put(f"packs/{name}", path.read_bytes())

    def put_segment(self, data: bytes) -> str:
        name, sealed = self._blobs.named_segment(data)
        self._names.add(f"index/{name}")
        self._blobs.copies.put("index", name, data)
        self._send(self._blobs.client.put, f"index/{name}", sealed)
        return name

    def numbered(self, head: Head) -> Numbered:
        own = dict(enumerate(self._made, head.next_pack))
        return Numbered(
            shift=head.next_pack - self._first,
            packs={**head.packs, **{number: made.size for number, made in own.items()}},
            names={**head.names, **{number: made.name for number, made in own.items()}},
            next_pack=head.next_pack + len(own),
        )

    def settle(self) -> None:
        sent, self._sent = self._sent, []
        for each in sent:
            each.result()

    def renew(self, head: Head, collected: bool) -> None:
        for made in self._made:
            key = f"packs/{made.name}"
            if key in head.gone or (collected and not self._blobs.client.exists(key)):
                self._name(made, made.name.partition("-")[0])

    def committed(self, head: Head) -> bool:
        return any(f"packs/{name}" in self._names for name in head.names.values())

    def discard(self) -> None:
        if not self.swapping:  # else a head that names them may still arrive; a collection finds out
            with suppress(StoreError):
                self._blobs.client.delete(sorted(self._names))
        for made in self._made:
            made.path.unlink(missing_ok=True)

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
            self._pool = None
        if self._file is not None:
            self._file.close()
            self._file = None
            self._path.unlink(missing_ok=True)

    def keep(self) -> None:
        for made in self._made:
            with suppress(OSError):
                self._blobs.copies.keep("packs", made.name, made.path)
        self._made, self._names = [], set()  # a failure of what comes after the commit removes nothing
