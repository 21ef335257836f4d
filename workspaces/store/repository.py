"""The store's public API: take snapshots of live trees; read, compare, restore, collect and verify them.

Modules that only some methods need are imported inside them: reading one file must not load the tree writer.
"""

from __future__ import annotations

import errno
import os
import time
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from blake3 import blake3

from .blobs import at as blobs_at
from .content import read_entry, stream_entry
from .errors import Missing, StoreError, path_of
from .index.catalog import Catalog
from .lock import WAIT_SECONDS
from .objects import FOLDER, Entry
from .progress import Report, Watch
from .safe_open import split_path

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from .blobs import Blobs
    from .diff import Change
    from .file_reader import Inspect, LeavesOut, Sink
    from .gc import Collected, Forecast, Usage
    from .restore import Owner, Proof, Restored
    from .scan import Scan, Skipped
    from .stat_cache import StatCache
    from .tree import LocalLive, LocalTree
    from .verify import Findings


class Snapshot(NamedTuple):
    """The result of a snapshot. `bytes` is the total size of its files, `added_bytes` the growth of the store."""

    tree: str
    entries: int
    bytes: int
    added_bytes: int
    skipped: list[Skipped]
    seconds: float
    looked_at: tuple[int, int] = (0, 0)  # `scan.LookedAt`


class Store:
    """Snapshots in a folder or a bucket. Any number of threads and processes may read, and write one after the other.

    On a bucket (`s3://BUCKET/PREFIX`), processes of several hosts may write at the same time.
    """

    def __init__(self, blobs: Blobs, catalog: Catalog, store_id: str):
        self.blobs, self.catalog, self.id = blobs, catalog, store_id

    @property
    def path(self) -> Path | str:
        """The address: the folder, or `s3://BUCKET/PREFIX`."""
        return self.blobs.address

    @classmethod
    def create(cls, path: str | os.PathLike | Blobs, **where) -> Store:
        """Create an empty store in a new or empty folder, or below a prefix of a bucket; `where` as for `open`."""
        blobs = blobs_at(path, **where)
        blobs.create()
        return cls.open(blobs)

    @classmethod
    def open(cls, path: str | os.PathLike | Blobs, **where) -> Store:
        """Open an existing store; `where` as for `blobs.at`.

        Raise StoreError if it is missing, unreadable or of another format version.
        """
        blobs = blobs_at(path, **where)
        store_id = blobs.identity()
        return cls(blobs, Catalog(blobs), store_id)

    # -- snapshots -------------------------------------------------------------------------------------------------

    def snapshot(
        self,
        tree: LocalTree,
        *,
        progress: Report | None = None,
        cancel: threading.Event | None = None,
        inspect: Inspect | None = None,
        before_commit: Callable[[], None] | None = None,
        thorough: bool = False,
        prove: bool = False,
        hold: float = 3600.0,
        wait: float = WAIT_SECONDS,
    ) -> Snapshot:
        """Store the tree as it is now. Nothing is left behind on an error, a cancel, or an exception of a callback.

        `inspect(path, bytes)` is called with all new content, large files in overlapping pieces, and separately with
        extended attributes. `before_commit()` is called once, before the commit. `thorough` reads every file.
        A watched tree is looked at where it may have changed; `prove` and `thorough` walk it all, and compare. Garbage
        collection keeps the tree for `hold` seconds, so that the caller has time to record its id.
        """
        from .writer import Writer

        begun = time.monotonic()
        with tree.opened() as live, self._failing(f"no snapshot of {tree.path}"):
            with self.blobs.writing(wait=wait, cancel=cancel):
                writer, scan = Writer(self.catalog), None
                try:
                    scan = self._scan(tree, live, writer, thorough=thorough, prove=prove, watched=tree.watched)
                    scan.inspect, scan.cancel, scan.report = inspect, cancel, progress
                    scan.made = tree.made and tree.made.still_in(self.catalog)
                    tree_id = scan.run(live.root).hex()
                    scan.check_cancelled()
                    if before_commit:
                        before_commit()
                    writer.commit(tree_id, hold)
                except BaseException:
                    if scan is not None:
                        scan.forget()
                    writer.abort()
                    raise
                scan.remember()
        done = (tree_id, scan.entries, scan.bytes, writer.added_bytes, scan.skipped, time.monotonic() - begun)
        return Snapshot(*done, scan.looked_at())

    def select(self, tree_id: str, paths: Iterable[bytes], *, hold: float = 3600.0, wait: float = WAIT_SECONDS):
        """Store a tree that has only these files and folders of another one, by their own names.

        Return its id, entries and bytes. Garbage collection keeps it for `hold` seconds. Raise StoreError if a path is
        not there, or if two have the same name.
        """
        from .select import selected
        from .writer import Writer

        with self._failing("nothing was selected"), self.blobs.writing(wait=wait):
            writer = Writer(self.catalog)
            try:
                made = selected(writer, self.root(tree_id), [self.entry(tree_id, path) for path in paths])
                writer.commit(made.tree, hold)
            except BaseException:
                writer.abort()
                raise
        return made

    def _scan(self, tree: LocalTree, live: LocalLive, sink: Sink, *, thorough: bool, prove=False, watched=None) -> Scan:
        self.catalog.refresh()  # objects removed by a garbage collection must not count as stored
        rules = tree.rules() if tree.rules else None
        path, stamp = self._cache_of(tree, live, rules)
        scan = None
        if watched is not None:
            known = partial(self._cache, path, stamp)
            scan = watched.scan(live, sink, known, stamp, thorough=thorough, prove=prove, holds=self.catalog.holds)
        if scan is None:
            started_ns = live.begin()
            thorough = thorough or not live.is_ctime_trusted()
            scan = live.scan(sink, self._cache(path, stamp), thorough=thorough, started_ns=started_ns)
        scan.leaves_out, scan.shown, scan.shared = rules, tree.shown, tree.shared
        return scan

    def _cache_of(self, tree: LocalTree, live: LocalLive, rules: LeavesOut | None) -> tuple[Path, tuple]:
        """Return the file and the stamp of a tree's stat cache, as `_cache` takes them."""
        stamp = (self.id, *live.identity, *([rules.digest] if rules else ()))
        return tree.cache or self.blobs.caches / blake3(live.place).hexdigest(16), stamp

    def _cache(self, path: Path, stamp: tuple, folders: dict | None = None) -> StatCache:
        """Return the stat cache of a tree: as it is on disk, or with these folders."""
        from .stat_cache import StatCache

        cache = StatCache(path, stamp, folders)
        root = cache.folders.get("")
        if root and not self.catalog.holds(root.tree):
            # A garbage collection removed it. An object that the index names is stored with everything below it.
            cache.folders = {at: known for at, known in cache.folders.items() if self.catalog.holds(known.tree)}
        return cache

    # -- reading ---------------------------------------------------------------------------------------------------

    def root(self, tree_id: str) -> Entry:
        """Return the root entry of a tree: its name is empty, its content the top folder's id."""
        return self.catalog.folder(_tree_bytes(tree_id)).root()

    def entry(self, tree_id: str, path: bytes) -> Entry:
        """Return one entry. Raise Missing if the snapshot has no such path."""
        found = self.root(tree_id)
        for name in split_path(path):
            below = self.catalog.folder(found.content).find(name) if found.kind == FOLDER and found.kept else None
            if below is None:
                raise Missing(f"{os.fsdecode(path)!r} does not exist in the snapshot")
            found = below
        return found

    def ls(self, tree_id: str, path: bytes = b"") -> list[Entry]:
        """Return the entries of a folder in byte order, or [entry] for a path that is not a folder."""
        found = self.entry(tree_id, path)
        if found.kind != FOLDER or not found.kept:
            return [found]
        return list(self.catalog.folder(found.content))

    def read(self, tree_id: str, path: bytes, offset: int = 0, length: int | None = None) -> bytes:
        """Return part of a file's bytes, or of a symlink's target."""
        return read_entry(self.catalog, self.entry(tree_id, path), offset, length)

    def stream(self, tree_id: str, path: bytes) -> Iterator[bytes]:
        """Yield a file's bytes in pieces."""
        return stream_entry(self.catalog, self.entry(tree_id, path))

    def archive(
        self, tree_id: str, out: BinaryIO, *, progress: Report | None = None, cancel: threading.Event | None = None
    ) -> int:
        """Write a tree as `.tar.zst` to an open file and return the number of its entries."""
        from .archive import write_archive  # tarfile is slow to import and rarely needed

        below = self.catalog.folder(_tree_bytes(tree_id))
        watch = Watch(progress, cancel, below.entries_below, below.bytes_below)
        return write_archive(self.catalog, below.root(), out, watch)

    def read_back(
        self, tree_id: str, *, progress: Report | None = None, cancel: threading.Event | None = None
    ) -> list[bytes]:
        """Read every byte of a snapshot. Raise StoreError if one is missing or damaged.

        Return the paths of files and folders whose content the snapshot does not hold; sockets and devices have none.
        """
        from .verify import read_back

        with self._failing("the snapshot cannot be read"):
            below = self.catalog.folder(_tree_bytes(tree_id))
            watch = Watch(progress, cancel, below.entries_below, below.bytes_below)
            return read_back(self.catalog, below.root(), watch)

    # -- comparing -------------------------------------------------------------------------------------------------

    def diff(self, a: str, b: str) -> Iterator[Change]:
        """Yield the changes between two trees in path order; folders with equal ids are not read."""
        from .diff import changes

        return changes(self.catalog.folder, self.root(a).content, self.root(b).content)

    def compare(
        self,
        tree_id: str,
        target: LocalTree,
        *,
        full: bool = False,
        lend: bool = True,
        owner: Owner | None = None,
        progress: Report | None = None,
        cancel: threading.Event | None = None,
    ) -> Proof:
        """Compare a live tree with a snapshot: by stat, by content where stat differs, all content if `full`.

        With `lend`, a file that is not in the stat cache counts as equal if its size and mtime match the snapshot, as
        after a restore, which gives each file a new inode. Without it, such a file is read.
        """
        from .restore import Sketch, compare

        with target.opened() as live, self._failing(f"{target.path} cannot be compared"):
            scan = self._scan(target, live, Sketch(self.catalog), thorough=full)
            scan.twin = None if full or not lend else _tree_bytes(tree_id)
            scan.cancel, scan.report = cancel, progress
            return compare(self.catalog, scan, _tree_bytes(tree_id), live, owner)

    # -- restoring -------------------------------------------------------------------------------------------------

    def restore(
        self,
        tree_id: str,
        target: LocalTree,
        *,
        journal: str | os.PathLike | None,
        paths: Iterable[bytes] | None = None,
        keep: Iterable[bytes] = (),
        owner: Owner | None = None,
        lender: LocalTree | None = None,
        progress: Report | None = None,
        cancel: threading.Event | None = None,
    ) -> Restored:
        """Make a live tree equal to a snapshot, in whole or only at `paths`; paths in `keep` are not changed.

        Atomic: after a crash, `target.recover(journal)` must run before anything reads the tree. `cancel` has effect
        until the first entry is changed. With `owner` (uid, gid), what the owner of the snapshot's root owns gets that
        owner. `lender` is a live tree to share blocks with. A watched tree is looked at where it may have changed.
        """
        from .lending import lending
        from .restore import Sketch, restore_tree

        def known(live: LocalLive) -> StatCache:
            return self._cache(*self._cache_of(lender, live, lender.rules() if lender.rules else None))

        lent = lending(lender, known, self.catalog.folder)
        with target.opened() as live, self._failing(f"{target.path} was not restored"), lent as live.lender:
            watched = target.watched if target.watched and target.watched.knows() else None
            scan = self._scan(target, live, Sketch(self.catalog), thorough=False, watched=watched)
            scan.cancel, scan.for_restore = cancel, True
            done = restore_tree(self.catalog, scan, _tree_bytes(tree_id), live, journal, paths, keep, owner, progress)
            target.made = live.made
            return done

    # -- garbage collection and checks -----------------------------------------------------------------------------

    def protect(self, tree_id: str, seconds: float) -> None:
        """Protect a tree from garbage collection for `seconds` from now; any process may call this."""
        self.blobs.hold(_tree_bytes(tree_id).hex(), seconds)

    def release(self, tree_id: str) -> None:
        """Remove the hold on a tree before it expires."""
        self.blobs.release(_tree_bytes(tree_id).hex())

    def gc(
        self,
        keep: Iterable[str] | Callable[[], Iterable[str]],
        *,
        since: float | None = None,
        rewrite: bool = False,
        wait: float = WAIT_SECONDS,
        progress: Report | None = None,
        cancel: threading.Event | None = None,
    ) -> Collected:
        """Remove the objects that no tree of `keep` needs. Held trees stay, and trees committed since `since`.

        `since` is a Unix timestamp (default: now); pass the time at which `keep` was read. A function is called for the
        trees once the present ones are known, so that none that is committed meanwhile can be missed. A cancelled
        collection has removed nothing. With `rewrite` every pack is written anew, so that no unneeded byte stays on
        disk; otherwise only packs that are mostly unneeded.
        """
        from .gc import MOSTLY_DEAD, collect

        def wanted(trees: Iterable[str] | Callable[[], Iterable[str]]) -> set[bytes]:
            return {_tree_bytes(tree_id) for tree_id in (trees() if callable(trees) else trees)}

        keep = keep if callable(keep) else list(keep)
        since = self.blobs.clock() if since is None else since
        with self._failing("nothing was collected"), self.blobs.writing(wait=wait, cancel=cancel):
            share = float("inf") if rewrite else MOSTLY_DEAD
            return collect(self.catalog, lambda: wanted(keep), since, Watch(progress, cancel), share)

    def verify(
        self, full: bool = False, *, progress: Report | None = None, cancel: threading.Event | None = None
    ) -> Findings:
        """Check the structure of the store, or every byte of it if `full`."""
        from .verify import check

        with self._failing("the store cannot be checked"):
            return check(self.catalog, full, Watch(progress, cancel))

    def usage(self, trees: Iterable[str] = ()) -> Usage:
        """Return the disk usage of the store and, for each of `trees`, its exclusive and its total stored bytes."""
        from .gc import measure

        return measure(self.catalog, [_tree_bytes(tree_id) for tree_id in trees])

    def alone(
        self,
        trees: Iterable[tuple[str, str]],
        *,
        progress: Report | None = None,
        cancel: threading.Event | None = None,
    ) -> dict[str, int]:
        """Estimate for each owner of `trees` (owner, tree id) the stored bytes that removing all its trees frees."""
        from .gc import alone

        pairs = ((owner, _tree_bytes(tree_id)) for owner, tree_id in trees)
        return alone(self.catalog, pairs, Watch(progress, cancel))

    def forecast(self, going: Iterable[str], kept: Iterable[str], at: float | None = None) -> Forecast:
        """Estimate what a collection (at `at`, None: now) frees once the trees of `going` are removed."""
        from .gc import forecast

        return forecast(self.catalog, map(_tree_bytes, going), map(_tree_bytes, kept), at)

    def freed(self, going: Iterable[str], kept: Iterable[str]) -> int:
        """Estimate the stored bytes that removing the trees of `going` would free while those of `kept` stay."""
        from .gc import freed

        return freed(self.catalog, map(_tree_bytes, going), map(_tree_bytes, kept))

    @contextmanager
    def _failing(self, what: str) -> Iterator[None]:
        """Turn an OSError into a StoreError with a message that can be shown."""
        try:
            yield
        except OSError as error:
            reason = "the disk is full" if error.errno in (errno.ENOSPC, errno.EDQUOT) else error.strerror or error
            where = f" ({os.fsdecode(error.filename)})" if error.filename else path_of(error)
            raise StoreError(f"{what}: {reason}{where}") from error


def _tree_bytes(tree_id: str) -> bytes:
    try:
        content = bytes.fromhex(tree_id)
    except (ValueError, TypeError) as error:
        raise StoreError(f"{tree_id!r} is not a tree id") from error
    if len(content) != 32:
        raise StoreError(f"{tree_id!r} is not a tree id")
    return content
