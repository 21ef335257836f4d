"""The catalog: the store's current packs and index segments, and reading objects through them.

The `head` file names them and is replaced by rename, so that a reader sees a commit in full or not at all. A reader
reloads the head before it reports an object as missing; new snapshots cost readers nothing else.
"""

import errno
import json
import os
import threading
from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from blake3 import blake3

from .. import blocks
from ..errors import Damaged, Missing, StoreError
from ..objects import EMPTY, Folder, decode_folder
from .segment import Place, Segment

FORMAT = "handrail-store"
VERSION = 1
_CACHED_BYTES = 24 << 20


class Head(NamedTuple):
    """One state of the store. `packs` maps a pack number to its committed length in bytes."""

    generation: int = 0
    collected: int = 0  # incremented by each garbage collection: older caches may name removed objects
    next_pack: int = 1  # numbers are never reused, so that a reader cannot mistake one pack for another
    packs: dict[int, int] = {}
    segments: list[str] = []
    trees: dict[str, float] = {}  # trees of the last day: unix time of their commit

    def encode(self) -> bytes:
        body = json.dumps({"format": FORMAT, "version": VERSION, **self._asdict()}, separators=(",", ":")).encode()
        return body + b"\n" + blake3(body).hexdigest().encode() + b"\n"

    @classmethod
    def decode(cls, data: bytes) -> "Head":
        try:
            body, checksum, _ = data.split(b"\n")
            fields = json.loads(body)
            if fields.pop("format") != FORMAT:
                raise ValueError("another format")
        except (ValueError, KeyError, AttributeError) as error:
            raise Damaged("the store's head is damaged; `reindex` rebuilds it from the packs") from error
        if (version := fields.pop("version", None)) != VERSION:
            raise StoreError(f"the store has format version {version}; this program supports version {VERSION}")
        if blake3(body).hexdigest().encode() != checksum:
            raise Damaged("the store's head is damaged; `reindex` rebuilds it from the packs")
        return cls(**{**fields, "packs": {int(number): size for number, size in fields["packs"].items()}})


def pack_path(store: Path, number: int) -> Path:
    return store / "packs" / f"{number:08d}.pack"


class Pack:
    """An open pack file; the descriptor is closed with the last reference."""

    def __init__(self, path: Path):
        self._fd = -1
        self.name = path.name
        self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def __del__(self):
        if self._fd >= 0:
            os.close(self._fd)

    def read(self, offset: int, length: int) -> bytes:
        return os.pread(self._fd, length, offset)


class View:
    """The store as of one head; immutable, so threads can share it."""

    def __init__(self, store: Path, head_bytes: bytes, known: dict[str, Segment]):
        self.head, self.head_bytes, self._store = Head.decode(head_bytes), head_bytes, store
        head = self.head
        self.segments = {name: known.get(name) or Segment(store / "index" / name) for name in head.segments}
        self._packs: dict[int, Pack] = {}

    def find(self, content: bytes) -> Place | None:
        for segment in self.segments.values():
            if place := segment.find(content):
                return place
        return None

    def pack(self, number: int) -> Pack:
        pack = self._packs.get(number)
        if pack is None:
            pack = self._packs.setdefault(number, Pack(pack_path(self._store, number)))
        return pack


class Catalog:
    """Read objects by id. Thread-safe; sees the commits of other processes."""

    def __init__(self, store: Path):
        self.store = store
        self._lock = threading.Lock()
        self._blocks: OrderedDict[tuple[int, int], bytes] = OrderedDict()
        self._cached = 0
        self._view: View | None = None
        self.refresh()

    @property
    def view(self) -> View:
        return self._view

    def refresh(self) -> bool:
        """Reload the head; return True if it has changed."""
        for _ in range(100):
            data = self._head_bytes()
            if self._view and self._view.head_bytes == data:
                return False
            try:
                self._view = View(self.store, data, self._view.segments if self._view else {})
                return True
            except FileNotFoundError:
                # A garbage collection has just removed segments that this head names, so there is a newer head.
                continue
        raise Damaged("the store's head names missing index segments; `reindex` rebuilds them")

    def _head_bytes(self) -> bytes:
        # A stat is not enough: two heads written within one clock tick may share inode, size and times.
        try:
            return (self.store / "head").read_bytes()
        except FileNotFoundError as error:
            raise StoreError(f"there is no store at {self.store}") from error

    def locate(self, content: bytes) -> Place:
        """Return the place of an object. Raise Missing if the store does not hold it."""
        if place := self._view.find(content):
            return place
        if self.refresh() and (place := self._view.find(content)):
            return place
        raise Missing(f"the store does not hold {content.hex()}")

    def holds(self, content: bytes) -> bool:
        return content == EMPTY or self._view.find(content) is not None

    def blob(self, content: bytes) -> bytes:
        """Return the bytes of an object, verified against its id. Raise Missing or Damaged."""
        if content == EMPTY:
            return b""
        for last in (False, True):
            place = self.locate(content)
            try:
                return self.blob_at(content, place)
            except Damaged:
                if last or not self.refresh():  # a repair may have moved it since
                    raise
            except OSError as error:
                if error.errno != errno.ENOENT or last:
                    raise Damaged(f"pack {place.pack:08d} cannot be read: {error.strerror}") from error
                self.refresh()  # a garbage collection has removed the pack since this view was made
        raise AssertionError("unreachable")

    def blob_at(self, content: bytes, place: Place) -> bytes:
        raw = self.raw_block(place)
        data = raw[place.offset : place.offset + place.length]
        if blake3(data).digest() != content:
            raise Damaged(f"{content.hex()} in pack {place.pack:08d} at {place.block} does not match its content id")
        return data

    def raw_block(self, place: Place) -> bytes:
        key = (place.pack, place.block)
        with self._lock:
            if key in self._blocks:
                self._blocks.move_to_end(key)
                return self._blocks[key]
        where = f"the block at {place.block} of pack {place.pack:08d}"
        data = self._view.pack(place.pack).read(place.block, place.block_length)
        raw = blocks.payload(data, blocks.check_block(data, where), where)
        with self._lock:
            if self._blocks.setdefault(key, raw) is raw:
                self._cached += len(raw)
            while self._cached > _CACHED_BYTES and len(self._blocks) > 1:
                self._cached -= len(self._blocks.popitem(last=False)[1])
        return raw

    def folder(self, content: bytes) -> Folder:
        return decode_folder(self.blob(content))

    def packs(self) -> Iterator[tuple[int, int]]:
        return iter(sorted(self._view.head.packs.items()))
