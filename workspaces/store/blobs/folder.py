"""A store in a folder of this host: packs that are appended to, a head that is renamed into place, one writer."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import threading
import time
from itertools import repeat
from pathlib import Path
from typing import TYPE_CHECKING

from ..atomic_write import flush_folder, replace_file
from ..errors import Absent, StoreError
from ..index.head import FORMAT, VERSION, Head
from ..lock import WAIT_SECONDS, flocked, is_flocked, writing
from . import Blobs, Numbered, Read, Sink

if TYPE_CHECKING:
    from collections.abc import Iterable

PACK_BYTES = 256 << 20
_CACHE_DAYS = 60
_KEPT = ".kept"  # after the tree id: a file that is locked by each process that keeps the tree


class FilePack:
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

    def size(self) -> int:
        return os.fstat(self._fd).st_size


class FolderBlobs(Blobs):
    """The files below one folder. `docs/store.md` specifies them."""

    clock = staticmethod(time.time)

    def __init__(self, path: str | os.PathLike):
        self.address = self.path = Path(path)
        self.caches = self.path / "caches"

    # -- the store -------------------------------------------------------------------------------------------------

    def create(self) -> None:
        """Build the store beside its place, and rename it there."""
        import shutil
        import tempfile

        path = self.path
        try:
            if path.is_dir() and os.listdir(path):
                raise StoreError(f"{path} is not empty")
            path.absolute().parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            half = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.absolute().parent))
            try:
                _fill(half)
                half.rename(path)
            except BaseException:
                shutil.rmtree(half)
                raise
            flush_folder(path.absolute().parent)
        except OSError as error:
            if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
                raise StoreError(f"{path} is not empty") from error
            raise StoreError(f"the store could not be created at {path}: {error.strerror}") from error

    def identity(self) -> str:
        path = self.path
        try:
            fields = json.loads((path / "format").read_bytes())
            name, version = fields["format"], fields["version"]
        except FileNotFoundError as error:
            raise Absent(f"there is no store at {path}") from error
        except OSError as error:
            raise StoreError(f"the store at {path} cannot be read: {error.strerror}") from error
        except (ValueError, KeyError, TypeError) as error:
            raise StoreError(f"{path / 'format'} is damaged: it has no store id") from error
        if (name, version) != (FORMAT, VERSION):
            raise StoreError(f"the store at {path} has format {name} {version}; supported: {FORMAT} {VERSION}")
        return fields.get("id", "")

    def writing(self, *, wait=None, cancel=None):
        return writing(self.path, wait=WAIT_SECONDS if wait is None else wait, cancel=cancel)

    # -- reading ---------------------------------------------------------------------------------------------------

    def known_head(self) -> Read | None:
        return None

    def head(self, known: Read | None = None) -> Read:
        # A stat is not enough: two heads written within one clock tick may share inode, size and times.
        try:
            data = (self.path / "head").read_bytes()
        except FileNotFoundError as error:
            raise Absent(f"there is no store at {self.path}") from error
        return known if known and known.data == data else Read(data, "")

    def segment(self, name: str) -> Path:
        return self.path / "index" / name

    def pack(self, head: Head, number: int) -> FilePack:
        return FilePack(self.pack_path(number))

    def original(self, head: Head, number: int, *, full: bool) -> FilePack:
        return self.pack(head, number)

    def pack_path(self, number: int) -> Path:
        return self.path / "packs" / f"{number:08d}.pack"

    def name_of(self, head: Head, number: int) -> str:
        return self.pack_path(number).name

    def remains(self) -> tuple[Read, Head]:
        if not (self.path / "format").exists():
            raise Absent(f"there is no store at {self.path}")
        packs = {int(path.stem): path.stat().st_size for path in sorted((self.path / "packs").glob("*.pack"))}
        return Read(b"", ""), Head(next_pack=max(packs, default=0) + 1, packs=packs)

    def stored_bytes(self, head: Head) -> int:
        return sum(
            found.stat().st_size for name in ("packs", "index", "caches") for found in os.scandir(self.path / name)
        )

    # -- writing ---------------------------------------------------------------------------------------------------

    def sink(self, head: Head) -> FolderSink:
        return FolderSink(self, head)

    def swap_head(self, read: Read, data: bytes) -> Read:
        replace_file(self.path / "head", data)  # the lock excludes other writers
        return Read(data, "")

    def put_segment(self, data: bytes) -> str:
        name = f"{os.urandom(16).hex()}.idx"
        replace_file(self.segment(name), data)
        return name

    def orphans(self, head: Head) -> set[str]:
        return set()  # each writer sweeps before it begins

    def leaving(self, before: Head, after: Head, orphans: Iterable[str] = ()) -> Head:
        return after

    def tidy(self, after: Head) -> None:
        for name, named in (("packs", set(map(self.name_of, repeat(after), after.packs))), ("index", after.segments)):
            for found in os.scandir(self.path / name):
                if found.name not in named:
                    os.unlink(found.path)
        flush_folder(self.path / "packs")

    def remove_gone(self, after: Head, *, at_once: bool = False) -> None:
        _forget_old_caches(self.caches)

    def fetch(self, head: Head, needed: dict[int, int]) -> None:
        pass

    def too_small(self, packs: dict[int, int]) -> set[int]:
        return set()  # small snapshots share a pack

    # -- holds -----------------------------------------------------------------------------------------------------

    def hold(self, tree_id: str, seconds: float) -> None:
        path, until = self.path / "holds" / tree_id, time.time() + seconds
        with contextlib.suppress(OSError, ValueError):
            if float(path.read_text()) >= until:
                return
        # Hold a little longer than requested, so that a caller that renews every few seconds seldom has to write.
        with flocked(self.path / "holds", fcntl.LOCK_SH):
            replace_file(path, f"{until + min(60.0, seconds):.3f}\n".encode())

    @contextlib.contextmanager
    def keeping(self, tree_id: str, released):
        """Lock a file of the tree: the kernel unlocks it when this process ends, however it ends."""
        path = self.path / "holds" / f"{tree_id}{_KEPT}"
        with flocked(self.path / "holds", fcntl.LOCK_SH):
            fd = _locked_file(path)
        over = threading.Event()

        def watch() -> None:
            while not over.wait(1.0):
                if not os.fstat(fd).st_nlink:
                    released()
                    return

        watching = threading.Thread(target=watch, name="store-keep", daemon=True)
        watching.start()
        try:
            yield
        finally:
            over.set()
            watching.join()
            os.close(fd)

    def without_new_holds(self):
        return flocked(self.path / "holds", fcntl.LOCK_EX)

    def release(self, tree_id: str) -> None:
        for name in (tree_id, f"{tree_id}{_KEPT}"):
            (self.path / "holds" / name).unlink(missing_ok=True)

    def held(self, head: Head, at: float | None = None) -> set[bytes]:
        """Return the trees that are held or kept now, or held at a later time; delete expired holds."""
        trees, at = set(), at or time.time()
        for path in (self.path / "holds").iterdir():
            try:
                if path.name.endswith(".new"):
                    if path.stat().st_mtime < time.time() - 3600:
                        path.unlink()  # left by a process that died while writing it
                elif path.name.endswith(_KEPT):
                    if is_flocked(path):
                        trees.add(bytes.fromhex(path.name.removesuffix(_KEPT)))
                    else:
                        path.unlink()
                elif (until := float(path.read_text())) > at:
                    trees.add(bytes.fromhex(path.name))
                elif until <= time.time():
                    path.unlink()
            except (OSError, ValueError):
                continue  # released since the folder was listed
        return trees


class FolderSink(Sink):
    """Appends to the last pack, or to a new one. The caller holds the lock."""

    def __init__(self, blobs: FolderBlobs, head: Head):
        self._blobs, self._head = blobs, head
        self.closed: set[int] = set()  # packs shorter than committed: still readable, but nothing is appended
        self._sweep_leftovers()
        self._packs, self._next_pack = dict(head.packs), head.next_pack
        self._number, self._fd, self._at = 0, -1, 0
        self._new_pack = False  # then the packs folder must be synced too

    def append(self, block: bytes) -> tuple[int, int]:
        if self._fd < 0 or self._at >= PACK_BYTES:
            self._next()
        at = self._at
        _write_all(self._fd, block)
        self._at += len(block)
        return self._number, at

    def _next(self) -> None:
        self._finish_pack()
        last = max(self._packs, default=0)
        if last and self._packs[last] < PACK_BYTES and last not in self.closed:
            self._number, self._at = last, self._packs[last]
        else:
            self._number, self._at = self._next_pack, 0
            self._next_pack += 1
            self._new_pack = True
        self._fd = os.open(self._blobs.pack_path(self._number), os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        os.lseek(self._fd, self._at, os.SEEK_SET)

    def _finish_pack(self) -> None:
        if self._fd >= 0:
            os.fdatasync(self._fd)
            self.close()
            self._packs[self._number] = self._at

    def flush(self) -> None:
        self._finish_pack()
        if self._new_pack:
            flush_folder(self._blobs.path / "packs")

    def numbered(self, head: Head) -> Numbered:
        return Numbered(0, dict(self._packs), {}, self._next_pack)

    def put_segment(self, data: bytes) -> str:
        return self._blobs.put_segment(data)

    def settle(self) -> None:
        pass  # each step was synced

    def renew(self, head: Head, collected: bool) -> None:
        raise AssertionError("nobody else writes while the lock is held")

    def committed(self, head: Head) -> bool:
        return False

    def keep(self) -> None:
        pass

    def discard(self) -> None:
        self.close()
        if Head.decode(self._blobs.head().data) == self._head:  # else only the sync after the commit failed
            self._sweep_leftovers()

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _sweep_leftovers(self) -> None:
        """Remove the leftovers of a writer that died or aborted: files and pack tails that the head does not name."""
        store = self._blobs.path
        litter = [found.path for found in os.scandir(store) if found.name.endswith(".new")]
        litter += [found.path for found in os.scandir(store / "index") if found.name not in self._head.segments]
        tails: list[tuple[str, int]] = []
        for found in os.scandir(store / "packs"):
            number = int(found.name.removesuffix(".pack")) if found.name.endswith(".pack") else None
            committed = self._head.packs.get(number)
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


def _locked_file(path: Path) -> int:
    """Create a file if it is missing and lock it with others; return its descriptor."""
    while True:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(fd, fcntl.LOCK_SH)
        if os.fstat(fd).st_nlink:
            return fd
        os.close(fd)  # `held` has removed it in between


def _fill(path: Path) -> None:
    for name in ("packs", "index", "caches", "holds"):
        (path / name).mkdir(mode=0o700)
        flush_folder(path / name)
    format_line = json.dumps({"format": FORMAT, "version": VERSION, "id": os.urandom(16).hex()}) + "\n"
    replace_file(path / "format", format_line.encode())
    replace_file(path / "head", Head().encode())
    flush_folder(path)


def _forget_old_caches(folder: Path) -> None:
    oldest = time.time() - _CACHE_DAYS * 86400
    for found in os.scandir(folder):
        if found.stat().st_mtime < oldest:
            os.unlink(found.path)


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]
