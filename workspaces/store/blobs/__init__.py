"""The seam below the engine: where a store keeps its packs, its index segments and its head.

`FolderBlobs` is a folder of this host: packs are appended to, and one writer at a time holds a lock. `BucketBlobs` is
an S3 bucket that many hosts share: packs are written once, and the head is changed by compare-and-swap. Everything
above is the same for both.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, NamedTuple, Protocol

from ..sealing import Keys

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from ..index.head import Head

SCHEME = "s3://"
NO_KEYS = Keys()


class Changed(Exception):
    """The object is not the expected one any more: another writer was first."""


class Read(NamedTuple):
    """A head as it was read: its bytes, and the tag that a swap names."""

    data: bytes
    tag: str


class Pack(Protocol):
    """One pack that can be read; `name` identifies its bytes for ever."""

    name: str

    def read(self, offset: int, length: int) -> bytes:
        """Return bytes, fewer at the end. Raise FileNotFoundError if the pack has been removed."""

    def size(self) -> int:
        """Return the length in bytes."""


class Numbered(NamedTuple):
    """The packs of the store with those of one transaction; `shift` is to be added to the transaction's own numbers."""

    shift: int
    packs: dict[int, int]
    names: dict[int, str]
    next_pack: int


class Sink(ABC):
    """What one transaction writes: blocks into packs, and index segments. Nothing of it counts before the swap."""

    closed: set[int]  # packs to which nothing may be appended
    swapping = False  # whether a replacement of the head may still arrive that names what was written here

    @abstractmethod
    def append(self, block: bytes) -> tuple[int, int]:
        """Append a block; return the number of its pack in this transaction, and its offset there."""

    @abstractmethod
    def flush(self) -> None:
        """Finish the packs that were written."""

    @abstractmethod
    def numbered(self, head: Head) -> Numbered:
        """Return the packs as they will be if `head` is the one to be replaced."""

    @abstractmethod
    def put_segment(self, data: bytes) -> str:
        """Write an index segment, at the latest until `settle` returns; return its name."""

    @abstractmethod
    def settle(self) -> None:
        """Wait until all that was written is durable."""

    @abstractmethod
    def renew(self, head: Head, collected: bool) -> None:
        """Write again what was removed before a head counted it; `collected`: there was a collection meanwhile."""

    @abstractmethod
    def committed(self, head: Head) -> bool:
        """Return True if a head that was read after a swap failed has what this transaction wrote after all."""

    @abstractmethod
    def keep(self) -> None:
        """Note that the transaction is committed."""

    @abstractmethod
    def discard(self) -> None:
        """Remove what was written."""

    @abstractmethod
    def close(self) -> None:
        """Release files and threads."""


class Blobs(ABC):
    """The bytes of one store."""

    shared = False  # whether other hosts may write at the same time
    address: Path | str
    caches: Path  # the folder of the stat caches, on this host
    clock: Callable[[], float]  # seconds since 1970; on a bucket one clock for all its writers
    keys: Keys = NO_KEYS  # what encrypts and decrypts blocks and, on a bucket, index segments

    @abstractmethod
    def create(self) -> None:
        """Make an empty store. Raise StoreError if something is there."""

    @abstractmethod
    def identity(self) -> str:
        """Return the store's id. Raise StoreError if there is no store, or one of another version."""

    @abstractmethod
    def known_head(self) -> Read | None:
        """Return a head that may be outdated but costs no request; None if there is none."""

    @abstractmethod
    def head(self, known: Read | None = None) -> Read:
        """Return the head as it is now, `known` itself if that has not changed. Raise StoreError."""

    @abstractmethod
    def swap_head(self, read: Read, data: bytes) -> Read:
        """Replace the head that was read: the commit. Return it as it is now; raise Changed if it was another one."""

    @abstractmethod
    def segment(self, name: str) -> Path:
        """Return a local file with an index segment. Raise FileNotFoundError if it has been removed."""

    @abstractmethod
    def pack(self, head: Head, number: int) -> Pack:
        """Open a pack. Raise FileNotFoundError if it has been removed."""

    @abstractmethod
    def original(self, head: Head, number: int, *, full: bool) -> Pack:
        """Open a pack without a look at copies on this host, for a check; `full`: all of it will be read."""

    @abstractmethod
    def name_of(self, head: Head, number: int) -> str:
        """Return the name of a pack's file."""

    @abstractmethod
    def put_segment(self, data: bytes) -> str:
        """Write an index segment and return its name."""

    @abstractmethod
    def remains(self) -> tuple[Read, Head]:
        """Return what `swap_head` replaces and a head without objects, of a store whose head or index may be lost.

        The head has every pack that is there, with its length. Raise StoreError if there is no store.
        """

    @abstractmethod
    def writing(
        self, *, wait: float | None = None, cancel: threading.Event | None = None
    ) -> AbstractContextManager[None]:
        """Hold the writer lock where writers exclude each other."""

    @abstractmethod
    def sink(self, head: Head) -> Sink:
        """Begin to write; `head` is the one that the transaction builds on."""

    @abstractmethod
    def hold(self, tree_id: str, seconds: float) -> None:
        """Keep a tree from collection for `seconds` from now, unless a hold that lasts longer exists."""

    @abstractmethod
    def release(self, tree_id: str) -> None:
        """Remove the hold on a tree."""

    @abstractmethod
    def keeping(self, tree_id: str, released: Callable[[], None]) -> AbstractContextManager[None]:
        """Keep a tree from collection as long as the context lasts and this process lives.

        `released()` is called, from another thread, if somebody releases the tree meanwhile: it may be collected then.
        """

    def without_new_holds(self) -> AbstractContextManager[None]:
        """Let nobody hold a tree as long as the context lasts, where a commit would not notice a new hold."""
        return nullcontext()

    @abstractmethod
    def held(self, head: Head, at: float | None = None) -> set[bytes]:
        """Return the trees that are held now, or at a later time."""

    @abstractmethod
    def orphans(self, head: Head) -> set[str]:
        """Return the files that writers who died have left, as names for `leaving`."""

    @abstractmethod
    def leaving(self, before: Head, after: Head, orphans: Iterable[str] = ()) -> Head:
        """Return `after` with a note of the packs and segments that it does not need any more."""

    @abstractmethod
    def tidy(self, after: Head) -> None:
        """Remove what a head, now committed, does not name and nobody else can be reading."""

    @abstractmethod
    def remove_gone(self, after: Head, *, at_once: bool = False) -> None:
        """Remove what left the head a day ago; `at_once`: also what other hosts may still be reading."""

    @abstractmethod
    def too_small(self, packs: dict[int, int]) -> set[int]:
        """Return the packs that a collection should fold together."""

    @abstractmethod
    def stored_bytes(self, head: Head) -> int:
        """Return the size of packs, index and local caches."""

    @abstractmethod
    def fetch(self, head: Head, needed: dict[int, int]) -> None:
        """Fetch packs to this host ahead of reading `needed` bytes of each."""


def is_bucket(address: object) -> bool:
    return isinstance(address, str) and address.startswith(SCHEME)


def at(
    address: str | os.PathLike | Blobs,
    *,
    cache: str | os.PathLike | None = None,
    cache_bytes: int | None = None,
    clock: Callable[[], float] | None = None,
    keys: Keys | None = None,
) -> Blobs:
    """Return the blobs at an address: a path, or `s3://BUCKET/PREFIX`; `keys` where they are to be encrypted.

    For a bucket: `cache` is the folder of its copies on this host (default: in the user's cache), up to `cache_bytes`;
    `clock` returns the time in seconds since 1970 by a clock that all hosts share.
    """
    if isinstance(address, Blobs):
        return address
    if is_bucket(address):
        from .bucket import BucketBlobs  # obstore is installed with the extra `s3` only

        found = BucketBlobs.at(address, cache=cache, cache_bytes=cache_bytes, clock=clock)
    else:
        from .folder import FolderBlobs

        found = FolderBlobs(address)
    found.keys = keys or NO_KEYS
    return found
