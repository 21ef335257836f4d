"""Write objects: compress blocks in threads, write them to packs, commit by replacing the head."""

from __future__ import annotations

import os
from array import array
from collections import deque
from typing import TYPE_CHECKING

from blake3 import blake3

from . import blocks
from .blobs import Changed
from .index.segment import PLACE, Place, encode_rows, encode_segment, merged
from .objects import EMPTY, Folder, decode_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from concurrent.futures import Future, ThreadPoolExecutor

    from .index.catalog import Catalog, View
    from .index.head import Head

BLOCK_RAW = {blocks.DATA: 1 << 20, blocks.META: 1 << 17}
MAX_SEGMENTS = 12
_REMEMBER_SECONDS = 86400.0
_THREADS = max(2, min(4, os.cpu_count() or 2))


class Writer:
    """One write transaction on the store. Nothing is visible before `commit`.

    On a folder the caller holds the writer lock. On a bucket others may commit meanwhile: the commit then unites what
    both wrote.
    """

    def __init__(self, catalog: Catalog):
        self.catalog = catalog
        catalog.refresh()
        self.view = catalog.view
        self.head = self.view.head
        self.key = catalog.blobs.keys.newest()
        self.sink = catalog.blobs.sink(self.head)
        self._open: dict[int, list[tuple[bytes, bytes]]] = {blocks.DATA: [], blocks.META: []}
        self._raw = {blocks.DATA: 0, blocks.META: 0}
        self.fresh: dict[bytes, bytes | None] = {}  # added here; META blobs stay readable until the commit
        # Of each block that is written: pack, offset, length, and ids and lengths of its blobs. Packed: there are many.
        self._written: list[tuple[int, int, int, bytes, array]] = []
        self._queue: deque[tuple[list[tuple[bytes, int]], Future]] = deque()
        self._threads: ThreadPoolExecutor | None = None
        self.added_bytes = 0

    # -- adding ----------------------------------------------------------------------------------------------------

    def holds(self, content: bytes) -> bool:
        return content in self.fresh or content == EMPTY or self.view.find(content) is not None

    def add(self, data: bytes, *, kind: int = blocks.DATA, content: bytes | None = None) -> bytes:
        """Store a blob unless the store holds it; return its id."""
        content = content or blake3(data).digest()
        if content not in self.fresh and not self.holds(content):
            self.copy(data, kind, content)
        return content

    def copy(self, data: bytes, kind: int, content: bytes) -> None:
        """Store a blob even if the store holds it already."""
        self.fresh[content] = data if kind == blocks.META else None
        self._open[kind].append((content, data))
        self._raw[kind] += len(data)
        if self._raw[kind] >= BLOCK_RAW[kind]:
            self._close_block(kind)

    def folder(self, content: bytes) -> Folder:
        """Read a folder object, from this transaction or from the store."""
        fresh = self.fresh.get(content)
        return decode_folder(fresh) if fresh is not None else self.catalog.folder(content)

    def _close_block(self, kind: int) -> None:
        blobs, self._open[kind], self._raw[kind] = self._open[kind], [], 0
        if not blobs:
            return
        if self._threads is None:
            from concurrent.futures import ThreadPoolExecutor  # slow to import, and often not needed

            self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="store-compress")
        items = [(content, len(data)) for content, data in blobs]
        self._queue.append((items, self._threads.submit(blocks.encode_block, kind, blobs, self.key)))
        # Queued blocks are held in memory; the limit keeps a fast reader from outrunning the compressors.
        while len(self._queue) > _THREADS + 1 or (self._queue and self._queue[0][1].done()):
            self._append(*self._queue.popleft())

    def _append(self, items: list[tuple[bytes, int]], future: Future) -> None:
        block = future.result()
        pack, at = self.sink.append(block)
        ids = b"".join([content for content, _ in items])
        self._written.append((pack, at, len(block), ids, array("I", [length for _, length in items])))
        self.added_bytes += len(block)

    def _rows(self, shift: int) -> Iterator[tuple[bytes, Place]]:
        for pack, at, size, ids, lengths in self._written:
            offset = 0
            for number, length in enumerate(lengths):
                yield ids[number * 32 : number * 32 + 32], Place(pack + shift, at, size, offset, length)
                offset += length

    def places(self, shift: int = 0) -> dict[bytes, Place]:
        """Return the place of each blob that is written, with the numbers of packs from `shift` on."""
        return dict(self._rows(shift))

    def flush(self) -> None:
        """Write all added blobs to the packs and finish those."""
        for kind in (blocks.DATA, blocks.META):
            self._close_block(kind)
        while self._queue:
            self._append(*self._queue.popleft())
        self.sink.flush()

    # -- commit and abort ------------------------------------------------------------------------------------------

    def commit(self, tree: str | None = None, hold: float = 0.0) -> None:
        """Commit: packs, then the index, then the head, each durable before the next.

        With `hold`, no collection takes the tree for so many seconds from now.
        """
        blobs = self.catalog.blobs
        if hold and not blobs.shared:
            blobs.hold(tree, hold)
            hold = 0.0
        if not self.fresh and not hold and (tree is None or tree in self.head.trees):
            self.close()
            return
        if self.fresh:
            self.flush()
        blobs.tidy(self.publish(lambda view: self._after(view, tree, hold)))
        self.close()

    def _after(self, view: View, tree: str | None, hold: float) -> Head:
        """Return the head that adds this transaction to a view of the store."""
        blobs, head = self.catalog.blobs, view.head
        now = blobs.clock()
        if head.collected != self.head.collected:
            from .recheck import write_again

            write_again(self, view, bytes.fromhex(tree) if tree else None)
        packs = self.sink.numbered(head)
        segments = head.segments
        if self._written:
            segments = self._write_segment(view, packs.shift)
        trees = {known: at for known, at in head.trees.items() if at > now - _REMEMBER_SECONDS}
        holds = {known: until for known, until in head.holds.items() if until > now}
        if tree:
            trees[tree] = now
            if hold:
                holds[tree] = max(holds.get(tree, 0.0), now + hold)
        after = head._replace(
            generation=head.generation + 1,
            next_pack=packs.next_pack,
            packs=packs.packs,
            names=packs.names,
            segments=segments,
            trees=trees,
            holds=holds,
            key=self.key.id.hex() if self.key else head.key,
        )
        return blobs.leaving(head, after)

    def _write_segment(self, view: View, shift: int) -> list[str]:
        """Write the index of this transaction; return the segments of the store, the small ones folded if many."""
        segments, obsolete = view.head.segments, []
        if len(segments) >= MAX_SEGMENTS:
            # Merge the small segments; rewrite one of the two largest only once the rest has at least half its size.
            by_size = sorted(segments, key=lambda name: view.segments[name].count)
            total = sum(len(lengths) for *_, lengths in self._written)
            for name in by_size:
                if len(by_size) - len(obsolete) <= 2 and view.segments[name].count > 2 * total:
                    break
                total += view.segments[name].count
                obsolete.append(name)
        if obsolete:
            segment = encode_segment(merged(view.segments[name] for name in obsolete) | self.places(shift))
        else:
            segment = encode_rows([content + PLACE.pack(*place) for content, place in self._rows(shift)])
        name = self.sink.put_segment(segment)
        return [*(kept for kept in segments if kept not in obsolete), name]

    def publish(self, after: Callable[[View], Head]) -> Head:
        """Replace the head by what `after` makes of it; again with the newer one if somebody else was first.

        Return the head that counts now.
        """
        blobs, view = self.catalog.blobs, self.view
        while True:
            head = after(view)
            self.sink.settle()
            self.sink.swapping = True  # until it is known whether the head was replaced
            try:
                self.catalog.show(blobs.swap_head(view.read, head.encode()))
                break
            except Changed:
                self.catalog.refresh()
            view = self.catalog.view
            if self.sink.committed(view.head):
                head = view.head
                break
            self.sink.swapping = False
            self.sink.renew(view.head, view.head.collected != self.head.collected)
        self.sink.swapping = False
        self.sink.keep()
        return head

    def abort(self) -> None:
        """Discard the transaction and remove its bytes from the store."""
        while self._queue:
            self._queue.popleft()[1].cancel()
        self.close()
        self.sink.discard()
        self.catalog.refresh()

    def close(self) -> None:
        if self._threads is not None:
            self._threads.shutdown()
            self._threads = None
        self.sink.close()
        self.view = None  # its packs are open, and their files may have been removed
