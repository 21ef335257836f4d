"""The store: what callers use. Snapshots of live trees, and everything that can be asked of them later.

What only some calls need is imported by them: a program that reads one file should not wait for what writes trees.
"""

from __future__ import annotations

import errno
import json
import os
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from blake3 import blake3

from .beneath import split_path
from .catalog import FORMAT, VERSION, Catalog, Head
from .contents import read_entry, stream_entry
from .durable import flush_folder, replace_file
from .errors import Missing, StoreError
from .lock import WAIT_SECONDS, writing
from .objects import FOLDER, Entry
from .progress import Report, Watch

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Iterable, Iterator

    from .collect import Collected, Usage
    from .diff import Change
    from .reading import Inspect, Sink
    from .restore import Owner, Proof, Restored
    from .scan import Scan, Skipped
    from .statcache import StatCache
    from .trees import LocalLive, LocalTree
    from .verify import Findings


class Snapshot(NamedTuple):
    """What a snapshot holds. `bytes` are the sizes of its files, `added_bytes` what the store grew by."""

    tree: str
    entries: int
    bytes: int
    added_bytes: int
    skipped: list[Skipped]
    seconds: float


class Store:
    """A folder of snapshots. Reading is safe from any number of threads and processes; writers take turns."""

    def __init__(self, path: Path, catalog: Catalog, store_id: str):
        self.path, self.catalog, self.id = path, catalog, store_id

    @classmethod
    def create(cls, path: str | os.PathLike) -> Store:
        """Make an empty store in a new or empty folder."""
        path = Path(path)
        try:
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
            if os.listdir(path):
                raise StoreError(f"{path} is not empty")
            for name in ("packs", "index", "caches", "holds"):
                (path / name).mkdir(mode=0o700)
                flush_folder(path / name)
            format_line = json.dumps({"format": FORMAT, "version": VERSION, "id": os.urandom(16).hex()}) + "\n"
            replace_file(path / "format", format_line.encode())
            replace_file(path / "head", Head().encode())
            flush_folder(path.absolute().parent)
        except OSError as error:
            raise StoreError(f"no store can be made at {path}: {error.strerror}") from error
        return cls.open(path)

    @classmethod
    def open(cls, path: str | os.PathLike) -> Store:
        path = Path(path)
        try:
            fields = json.loads((path / "format").read_bytes())
            name, version = fields["format"], fields["version"]
        except FileNotFoundError as error:
            raise StoreError(f"there is no store at {path}") from error
        except OSError as error:
            raise StoreError(f"the store at {path} cannot be read: {error.strerror}") from error
        except (ValueError, KeyError, TypeError) as error:
            raise StoreError(f"{path / 'format'} is damaged: it does not say what this store is") from error
        if (name, version) != (FORMAT, VERSION):
            raise StoreError(f"the store at {path} has format {name} {version}; this program knows {FORMAT} {VERSION}")
        return cls(path, Catalog(path), fields.get("id", ""))

    # -- snapshots -------------------------------------------------------------------------------------------------

    def snapshot(
        self,
        tree: LocalTree,
        *,
        progress: Report | None = None,
        cancel: threading.Event | None = None,
        inspect: Inspect | None = None,
        agree: Callable[[], None] | None = None,
        thorough: bool = False,
        hold: float = 3600.0,
        wait: float = WAIT_SECONDS,
    ) -> Snapshot:
        """Store the tree as it is now. Nothing is left behind if it fails, is cancelled, or what it calls raises.

        `inspect` is given (path, bytes) of whatever is new, large files in overlapping pieces, attributes apart;
        `agree` is called once, before the commit. `thorough` reads every
        file. A collection leaves the tree alone for `hold` seconds, so that the caller can write down its id.
        """
        from .writer import Writer

        begun = time.monotonic()
        with tree.opened() as live, self._failing(f"no snapshot of {tree.path}"):
            with writing(self.path, wait=wait, cancel=cancel):
                writer = Writer(self.catalog)
                try:
                    scan = self._scan(tree, live, writer, thorough=thorough)
                    scan.inspect, scan.cancel, scan.report = inspect, cancel, progress
                    tree_id = scan.run(live.root).hex()
                    scan.check_cancelled()
                    if agree:
                        agree()
                    if hold:
                        self.hold(tree_id, hold)
                    writer.commit(tree_id)
                except BaseException:
                    writer.abort()
                    raise
                scan.remember()
        return Snapshot(tree_id, scan.entries, scan.bytes, writer.added_bytes, scan.skipped, time.monotonic() - begun)

    def _scan(self, tree: LocalTree, live: LocalLive, sink: Sink, *, thorough: bool) -> Scan:
        self.catalog.refresh()  # what a collection took meanwhile must not be taken for known
        started_ns = live.begin()
        thorough = thorough or not live.times_tell()
        return live.scan(sink, self._cache(tree, live), thorough=thorough, started_ns=started_ns)

    def _cache(self, tree: LocalTree, live: LocalLive) -> StatCache:
        from .statcache import StatCache

        path = tree.cache or self.path / "caches" / blake3(live.place).hexdigest(16)
        cache = StatCache(path, (self.id, *live.identity))
        root = cache.folders.get("")
        if root and not self.catalog.holds(root.tree):
            # A collection took it. Whatever the index still names is there with all that lies below it.
            cache.folders = {at: known for at, known in cache.folders.items() if self.catalog.holds(known.tree)}
        return cache

    # -- reading ---------------------------------------------------------------------------------------------------

    def root(self, tree_id: str) -> Entry:
        """Return the root of a tree: its name is empty, its content the folder."""
        return self.catalog.folder(_tree_bytes(tree_id)).root()

    def entry(self, tree_id: str, path: bytes) -> Entry:
        """Return one entry; Missing if the snapshot has no such path."""
        found = self.root(tree_id)
        for name in split_path(path):
            below = self.catalog.folder(found.content).find(name) if found.kind == FOLDER and found.kept else None
            if below is None:
                raise Missing(f"the snapshot has no {os.fsdecode(path)!r}")
            found = below
        return found

    def ls(self, tree_id: str, path: bytes = b"") -> list[Entry]:
        """Return the entries of one folder in byte order, or the one entry that is not a folder."""
        found = self.entry(tree_id, path)
        if found.kind != FOLDER or not found.kept:
            return [found]
        return list(self.catalog.folder(found.content))

    def read(self, tree_id: str, path: bytes, offset: int = 0, length: int | None = None) -> bytes:
        """Return part of a file's bytes, or of a symlink's target."""
        return read_entry(self.catalog, self.entry(tree_id, path), offset, length)

    def stream(self, tree_id: str, path: bytes) -> Iterator[bytes]:
        """Yield a file's bytes piece by piece."""
        return stream_entry(self.catalog, self.entry(tree_id, path))

    def archive(
        self, tree_id: str, out: BinaryIO, *, progress: Report | None = None, cancel: threading.Event | None = None
    ) -> int:
        """Write a tree as `.tar.zst` to an open file and return the number of its entries."""
        from .archive import write_archive  # tarfile is slow to import, and few need it

        below = self.catalog.folder(_tree_bytes(tree_id))
        watch = Watch(progress, cancel, below.entries_below, below.bytes_below)
        return write_archive(self.catalog, below.root(), out, watch)

    # -- comparing -------------------------------------------------------------------------------------------------

    def diff(self, a: str, b: str) -> Iterator[Change]:
        """Yield what differs between two trees, in the order of paths; whole equal folders are never looked at."""
        from .diff import changes

        old, new = self.root(a), self.root(b)
        return changes(self.catalog.folder, old.content, new.content)

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
        """Prove that a live tree is the snapshot: by stat, by content where stat differs, all of it if `full`.

        With `lend` a file of the same size and time is believed although the stat cache does not know it, as after a
        restore, which gives each file a new inode; without, it is read.
        """
        from .restore import prove
        from .scan import Sketch

        with target.opened() as live, self._failing(f"{target.path} cannot be compared"):
            scan = self._scan(target, live, Sketch(self.catalog), thorough=full)
            scan.twin = None if full or not lend else _tree_bytes(tree_id)
            scan.cancel, scan.report = cancel, progress
            return prove(self.catalog, scan, _tree_bytes(tree_id), live, owner)

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
        progress: Report | None = None,
        cancel: threading.Event | None = None,
    ) -> Restored:
        """Make a live tree equal to a snapshot: all of it, or only `paths`; what is in `keep` is left alone.

        It is all or nothing: after a crash `target.recover(journal)` must run before anything reads the tree. `cancel`
        is heeded until the first entry of the tree is touched. With `owner` (uid, gid) what belonged to the owner of
        the snapshot's root belongs to that owner, as a fork for another user needs it.
        """
        from .restore import restore_tree
        from .scan import Sketch

        with target.opened() as live, self._failing(f"{target.path} was not restored"):
            scan = self._scan(target, live, Sketch(self.catalog), thorough=False)
            scan.cancel = cancel
            return restore_tree(self.catalog, scan, _tree_bytes(tree_id), live, journal, paths, keep, owner, progress)

    # -- holding ---------------------------------------------------------------------------------------------------

    def hold(self, tree_id: str, seconds: float) -> None:
        """Keep collections away from a tree for so many seconds from now; any process may ask."""
        from .collect import write_hold

        write_hold(self.path / "holds", _tree_bytes(tree_id).hex(), seconds)

    def release(self, tree_id: str) -> None:
        """Let go of a tree before its time."""
        (self.path / "holds" / _tree_bytes(tree_id).hex()).unlink(missing_ok=True)

    def gc(
        self,
        keep: Iterable[str],
        *,
        since: float | None = None,
        wait: float = WAIT_SECONDS,
        progress: Report | None = None,
        cancel: threading.Event | None = None,
    ) -> Collected:
        """Remove what no tree of `keep` needs. Trees committed after `since` (unix time; default: now) stay too,
        and so do held ones. Give the time at which `keep` was read as `since`. Cancelled, it has removed nothing.
        """
        from .collect import collect

        since = time.time() if since is None else since
        with self._failing("nothing was collected"), writing(self.path, wait=wait, cancel=cancel):
            keep = {_tree_bytes(tree_id) for tree_id in keep}
            return collect(self.catalog, keep, since, Watch(progress, cancel))

    def verify(
        self, full: bool = False, *, progress: Report | None = None, cancel: threading.Event | None = None
    ) -> Findings:
        """Check the structure of the store, or with `full` every byte of it."""
        from .verify import check

        with self._failing("the store cannot be checked"):
            return check(self.catalog, full, Watch(progress, cancel))

    def usage(self, trees: Iterable[str] = ()) -> Usage:
        """Return what the store takes on disk, and for each of `trees` what it holds alone and with others."""
        from .collect import measure

        return measure(self.catalog, [_tree_bytes(tree_id) for tree_id in trees])

    def alone(
        self,
        trees: Iterable[tuple[str, str]],
        *,
        progress: Report | None = None,
        cancel: threading.Event | None = None,
    ) -> dict[str, int]:
        """Return for each owner in (owner, tree) about how many bytes go when all trees of that owner go."""
        from .collect import alone

        pairs = ((owner, _tree_bytes(tree_id)) for owner, tree_id in trees)
        return alone(self.catalog, pairs, Watch(progress, cancel))

    def freed(self, going: Iterable[str], kept: Iterable[str]) -> int:
        """Return about how many bytes removing the trees of `going` would free, while those of `kept` stay."""
        from .collect import freed

        return freed(self.catalog, map(_tree_bytes, going), map(_tree_bytes, kept))

    @contextmanager
    def _failing(self, what: str) -> Iterator[None]:
        """Turn what the system says into a sentence."""
        try:
            yield
        except OSError as error:
            reason = "the disk is full" if error.errno in (errno.ENOSPC, errno.EDQUOT) else error.strerror or error
            where = f" ({os.fsdecode(error.filename)})" if error.filename else ""
            raise StoreError(f"{what}: {reason}{where}") from error


def _tree_bytes(tree_id: str) -> bytes:
    try:
        content = bytes.fromhex(tree_id)
    except (ValueError, TypeError) as error:
        raise StoreError(f"{tree_id!r} is not the id of a tree") from error
    if len(content) != 32:
        raise StoreError(f"{tree_id!r} is not the id of a tree")
    return content
