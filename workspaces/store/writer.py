"""Write objects: compress blocks in threads, append them to the last pack, commit by renaming the head."""

import os
import time
from collections import deque
from typing import TYPE_CHECKING

from blake3 import blake3

from . import blocks
from .atomic_write import flush_folder, replace_file
from .index.catalog import Catalog, Head, pack_path
from .index.segment import Place, encode_segment, merged
from .objects import Folder, decode_folder

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

PACK_BYTES = 256 << 20
BLOCK_RAW = {blocks.DATA: 1 << 20, blocks.META: 1 << 17}
MAX_SEGMENTS = 12
_REMEMBER_SECONDS = 86400.0
_THREADS = max(2, min(4, os.cpu_count() or 2))


class Writer:
    """One write transaction on the store; the caller holds the writer lock. Nothing is visible before `commit`."""

    def __init__(self, catalog: Catalog):
        self.catalog = catalog
        catalog.refresh()
        self.head = catalog.view.head
        self.closed: set[int] = set()  # packs shorter than committed: still readable, but nothing is appended
        self._sweep_leftovers()
        self._open: dict[int, list[tuple[bytes, bytes]]] = {blocks.DATA: [], blocks.META: []}
        self._raw = {blocks.DATA: 0, blocks.META: 0}
        self._fresh: dict[bytes, bytes | None] = {}  # added here; META blobs stay readable until the commit
        self.places: dict[bytes, Place] = {}
        self._queue: deque[tuple[list[tuple[bytes, int]], Future]] = deque()
        self._threads: ThreadPoolExecutor | None = None
        self.packs = dict(self.head.packs)
        self.next_pack = self.head.next_pack
        self._number, self._fd, self._at = 0, -1, 0
        self._new_pack = False  # then the packs folder must be synced too
        self.added_bytes = 0

    # -- adding ----------------------------------------------------------------------------------------------------

    def holds(self, content: bytes) -> bool:
        return content in self._fresh or self.catalog.holds(content)

    def add(self, data: bytes, *, kind: int = blocks.DATA, content: bytes | None = None) -> bytes:
        """Store a blob unless the store holds it; return its id."""
        content = content or blake3(data).digest()
        if not self.holds(content):
            self.copy(data, kind, content)
        return content

    def copy(self, data: bytes, kind: int, content: bytes) -> None:
        """Store a blob even if the store holds it already."""
        self._fresh[content] = data if kind == blocks.META else None
        self._open[kind].append((content, data))
        self._raw[kind] += len(data)
        if self._raw[kind] >= BLOCK_RAW[kind]:
            self._close_block(kind)

    def folder(self, content: bytes) -> Folder:
        """Read a folder object, from this transaction or from the store."""
        fresh = self._fresh.get(content)
        return decode_folder(fresh) if fresh is not None else self.catalog.folder(content)

    def _close_block(self, kind: int) -> None:
        blobs, self._open[kind], self._raw[kind] = self._open[kind], [], 0
        if not blobs:
            return
        if self._threads is None:
            from concurrent.futures import ThreadPoolExecutor  # slow to import, and often not needed

            self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="store-compress")
        items = [(content, len(data)) for content, data in blobs]
        self._queue.append((items, self._threads.submit(blocks.encode_block, kind, blobs)))
        # Queued blocks are held in memory; the limit keeps a fast reader from outrunning the compressors.
        while len(self._queue) > 2 * _THREADS or (self._queue and self._queue[0][1].done()):
            self._append(*self._queue.popleft())

    def _append(self, items: list[tuple[bytes, int]], future: "Future") -> None:
        block = future.result()
        if self._fd < 0 or self._at >= PACK_BYTES:
            self._next()
        _write_all(self._fd, block)
        offset = 0
        for content, length in items:
            self.places[content] = Place(self._number, self._at, len(block), offset, length)
            offset += length
        self._at += len(block)
        self.added_bytes += len(block)

    def _next(self) -> None:
        self._finish_pack()
        last = max(self.packs, default=0)
        if last and self.packs[last] < PACK_BYTES and last not in self.closed:
            self._number, self._at = last, self.packs[last]
        else:
            self._number, self._at = self.next_pack, 0
            self.next_pack += 1
            self._new_pack = True
        path = pack_path(self.catalog.store, self._number)
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        os.lseek(self._fd, self._at, os.SEEK_SET)

    def _finish_pack(self) -> None:
        if self._fd >= 0:
            os.fdatasync(self._fd)
            os.close(self._fd)
            self._fd = -1
            self.packs[self._number] = self._at

    # -- commit and abort ------------------------------------------------------------------------------------------

    def flush(self) -> None:
        """Write all added blobs to the packs and sync them."""
        for kind in (blocks.DATA, blocks.META):
            self._close_block(kind)
        while self._queue:
            self._append(*self._queue.popleft())
        self._finish_pack()
        if self._new_pack:
            flush_folder(self.catalog.store / "packs")

    def commit(self, tree: str | None = None) -> None:
        """Commit: write packs, then the index, then the head, each synced before the next."""
        now = time.time()
        if not self._fresh and (tree is None or tree in self.head.trees):
            self.close()
            return
        segments = list(self.head.segments)
        obsolete: list[str] = []
        if self._fresh:
            self.flush()
            segments, obsolete = self._write_segment(segments)
        trees = {known: at for known, at in self.head.trees.items() if at > now - _REMEMBER_SECONDS}
        if tree:
            trees[tree] = now
        self.publish(
            self.head._replace(
                generation=self.head.generation + 1,
                next_pack=self.next_pack,
                packs=self.packs,
                segments=segments,
                trees=trees,
            )
        )
        for name in obsolete:
            (self.catalog.store / "index" / name).unlink(missing_ok=True)
        self.close()

    def _write_segment(self, segments: list[str]) -> tuple[list[str], list[str]]:
        view = self.catalog.view
        places, obsolete = dict(self.places), []
        if len(segments) >= MAX_SEGMENTS:
            # Merge the small segments; rewrite one of the two largest only once the rest has at least half its size.
            by_size = sorted(segments, key=lambda name: view.segments[name].count)
            total = len(places)
            for name in by_size:
                if len(by_size) - len(obsolete) <= 2 and view.segments[name].count > 2 * total:
                    break
                total += view.segments[name].count
                obsolete.append(name)
            places = merged(view.segments[name] for name in obsolete) | places
        name = self.add_segment(places)
        return [*(kept for kept in segments if kept not in obsolete), name], obsolete

    def add_segment(self, places: dict[bytes, Place]) -> str:
        name = f"{os.urandom(16).hex()}.idx"
        replace_file(self.catalog.store / "index" / name, encode_segment(places))
        return name

    def publish(self, head: Head) -> None:
        replace_file(self.catalog.store / "head", head.encode())
        self.catalog.refresh()

    def abort(self) -> None:
        """Discard the transaction and remove its bytes from the store."""
        while self._queue:
            self._queue.popleft()[1].cancel()
        self.close()
        self.catalog.refresh()
        if self.catalog.view.head == self.head:  # else the commit succeeded and only the sync after it failed
            self._sweep_leftovers()

    def close(self) -> None:
        if self._threads is not None:
            self._threads.shutdown()
            self._threads = None
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _sweep_leftovers(self) -> None:
        """Remove the leftovers of a writer that died or aborted: files and pack tails that the head does not name."""
        store = self.catalog.store
        litter = [found.path for found in os.scandir(store) if found.name.endswith(".new")]
        litter += [found.path for found in os.scandir(store / "index") if found.name not in self.head.segments]
        tails: list[tuple[str, int]] = []
        for found in os.scandir(store / "packs"):
            number = int(found.name.removesuffix(".pack")) if found.name.endswith(".pack") else None
            committed = self.head.packs.get(number)
            if committed is None:
                litter.append(found.path)
            elif (size := found.stat().st_size) > committed:
                tails.append((found.path, committed))
            elif size < committed:
                self.closed.add(number)
        if litter or tails:
            flush_folder(store)  # the writer of the current head may have died before syncing its rename
        for path in litter:
            os.unlink(path)
        for path, committed in tails:
            os.truncate(path, committed)


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]
