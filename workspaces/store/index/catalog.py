"""The catalog: the store's current packs and index segments, and reading objects through them.

The `head` file names them and is replaced by rename, so that a reader sees a commit in full or not at all. A reader
reloads the head before it reports an object as missing; new snapshots cost readers nothing else.
"""

from __future__ import annotations

import errno
import threading
from collections import OrderedDict
from typing import TYPE_CHECKING

from blake3 import blake3

from .. import blocks
from ..errors import Damaged, Missing
from ..objects import EMPTY, Folder, decode_folder
from .head import Head
from .segment import Place, Segment

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ..blobs import Blobs, Pack, Read

_CACHED_BYTES = 24 << 20


class View:
    """The store as of one head; immutable, so threads can share it."""

    def __init__(self, blobs: Blobs, read: Read, known: dict[str, Segment]):
        self.head, self.read, self._blobs = Head.decode(read.data), read, blobs
        if self.head.key:
            blobs.keys.key(bytes.fromhex(self.head.key), f"the store at {blobs.address}")
        self.segments = {name: known.get(name) or Segment(blobs.segment(name)) for name in self.head.segments}
        self._packs: dict[int, Pack] = {}

    def find(self, content: bytes) -> Place | None:
        for segment in self.segments.values():
            if place := segment.find(content):
                return place
        return None

    def pack(self, number: int) -> Pack:
        pack = self._packs.get(number)
        if pack is None:
            pack = self._packs.setdefault(number, self._blobs.pack(self.head, number))
        return pack


class Catalog:
    """Read objects by id. Thread-safe; sees the commits of other processes."""

    def __init__(self, blobs: Blobs):
        self.blobs = blobs
        self._lock = threading.Lock()
        self._blocks: OrderedDict[tuple[str, int], bytes] = OrderedDict()
        self._cached = 0
        self._view: View | None = None
        self._open()

    def _open(self) -> None:
        # An outdated head of a bucket will do: what it lacks is looked up in the present one.
        if read := self.blobs.known_head():
            try:
                self._view = View(self.blobs, read, {})
                return
            except (FileNotFoundError, Damaged):
                pass
        self.refresh()

    @property
    def view(self) -> View:
        return self._view

    def refresh(self) -> bool:
        """Reload the head; return True if it has changed."""
        for _ in range(100):
            view = self._view
            read = self.blobs.head(view.read if view else None)
            if view and view.read is read:
                return False
            try:
                self._view = View(self.blobs, read, view.segments if view else {})
                return True
            except FileNotFoundError:
                # A garbage collection has just removed segments that this head names, so there is a newer head.
                continue
        raise Damaged("the store's head names missing index segments; `reindex` rebuilds them")

    def show(self, read: Read) -> None:
        """Show the store as of a head that this process has just written."""
        self._view = View(self.blobs, read, self._view.segments)

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

    def blob_at(self, content: bytes, place: Place, view: View | None = None) -> bytes:
        """Return the bytes of an object at a place of the present view, or of an older one."""
        raw = self.raw_block(place, view)
        data = raw[place.offset : place.offset + place.length]
        if blake3(data).digest() != content:
            raise Damaged(f"{content.hex()} in pack {place.pack:08d} at {place.block} does not match its content id")
        return data

    def raw_block(self, place: Place, view: View | None = None) -> bytes:
        pack = (view or self._view).pack(place.pack)
        key = (pack.name, place.block)
        with self._lock:
            if key in self._blocks:
                self._blocks.move_to_end(key)
                return self._blocks[key]
        where = f"the block at {place.block} of pack {place.pack:08d}"
        data = pack.read(place.block, place.block_length)
        raw = blocks.payload(data, blocks.check_block(data, where), where, self.blobs.keys)
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

    def fetch(self, places: Iterable[Place]) -> None:
        """Fetch the packs with these objects to this host, where that is quicker than to read them one by one."""
        if self.blobs.shared:
            needed: dict[int, int] = {}
            for pack, _, length in {(place.pack, place.block, place.block_length) for place in places}:
                needed[pack] = needed.get(pack, 0) + length
            self.blobs.fetch(self._view.head, needed)
