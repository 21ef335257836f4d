"""Build the new entries of a restore in a private staging folder beside the tree."""

import itertools
import os
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from blake3 import blake3

from .attributes import Rules, set_on_new, set_xattrs
from .content import pieces_of
from .depth import raise_limits_at
from .errors import Damaged, StoreError
from .index.catalog import Catalog
from .index.segment import Place
from .lending import LEAST, Lender
from .made import Made
from .objects import FIFO, FILE, FOLDER, LISTED, SYMLINK, Entry
from .safe_open import parent_beneath
from .swap import OpenFolders

_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
Tick = Callable[[int, int], None]  # called with the entries and bytes just built; raises Cancelled


class _File(NamedTuple):
    """A file to create, and the place of its bytes if they are one object."""

    place: Place | None
    parent: bytes
    name: bytes
    entry: Entry
    path: bytes  # in the tree


class Stage:
    """The staging folder of a restore. The names in it are the numbers of the steps that place an entry.

    `live_links` maps each hard-link group to the paths of its members in the tree that the restore does not change.
    """

    def __init__(
        self, catalog: Catalog, stage_fd: int, tree_fd: int, rules: Rules, wanted: Callable[[bytes, Entry], bool],
        live_links: dict[bytes, list[bytes]], tick: Tick, lender: Lender | None = None, made: Made | None = None,
    ):  # fmt: skip
        self.catalog, self.stage_fd, self.tree_fd, self.rules = catalog, stage_fd, tree_fd, rules
        self.wanted, self.live_links, self.tick = wanted, live_links, tick
        self.lender, self.made = lender, made
        self._files: list[_File] = []
        self._folders: list[tuple[bytes, Entry]] = []
        self._links: dict[bytes, bytes] = {}
        self._umask = _umask()
        self._owner = os.geteuid(), os.getegid()
        self._opened = OpenFolders(stage_fd)  # for the calling thread only

    def close(self) -> None:
        self._opened.close()

    # -- queueing --------------------------------------------------------------------------------------------------

    def put(self, staged: bytes, path: bytes, entry: Entry) -> None:
        """Queue one entry, with everything below it, to be built under the name `staged`."""
        parent, _, name = staged.rpartition(b"/")
        if entry.kind == FILE:
            self._note(parent, name, entry, path)
        elif entry.kind == FOLDER:
            os.mkdir(name, 0o700, dir_fd=self._opened.open(parent))
            self._folder(staged, path, entry)
        else:
            self._special(self._opened.open(parent), name, entry)

    def _note(self, parent: bytes, name: bytes, entry: Entry, path: bytes) -> None:
        whole = entry.size and not entry.flags & LISTED and not entry.link
        place = self.catalog.locate(entry.content) if whole else None
        self._files.append(_File(place, parent, name, entry, path))

    def _folder(self, staged: bytes, path: bytes, entry: Entry) -> None:
        self._folders.append((staged, entry))
        raise_limits_at(staged)
        self.tick(1, 0)
        for inner in self.catalog.folder(entry.content):
            below = path + b"/" + inner.name
            if not self.wanted(below, inner):
                continue
            if inner.kind == FILE:
                self._note(staged, inner.name, inner, below)
            else:
                self.put(staged + b"/" + inner.name, below, inner)

    # -- building --------------------------------------------------------------------------------------------------

    def build(self) -> None:
        """Write all files in the order of their blocks in the packs, then set the attributes of folders.

        What the lender's tree has is shared with it instead.
        """
        if self.lender is not None:
            self._files = [file for file in self._files if not self._borrowed(file)]
        whole = sorted((file for file in self._files if file.place), key=lambda file: file.place)
        self.catalog.fetch(file.place for file in whole)
        batches = [list(files) for _, files in itertools.groupby(whole, key=lambda file: file.place[:2])]
        self._in_threads(batches)
        for file in self._files:
            if file.place is None:
                self._file(self._opened.open(file.parent), file)
        made = (*self._owner, 0o700 & ~self._umask)
        for staged, entry in reversed(self._folders):
            set_on_new(self._opened.open(staged), self.rules.attributes(entry), made)

    def _in_threads(self, batches: list[list[_File]]) -> None:
        """Write batches of files in two threads; the first error stops both."""
        left = deque(batches)
        lock, errors = threading.Lock(), []

        def work(take: Callable[[], list[_File]]) -> None:
            folders = OpenFolders(self.stage_fd)
            try:
                while not errors:
                    with lock:
                        files = take() if left else None
                    if files is None:
                        return
                    count, size = self._batch(files, folders)
                    with lock:
                        self.tick(count, size)
            except BaseException as error:
                errors.append(error)
            finally:
                folders.close()

        # Take from both ends: two threads that create files in one folder would block each other.
        other = threading.Thread(target=work, args=(left.pop,), name="store-restore")
        if len(batches) > 1:
            other.start()
        work(left.popleft)
        if len(batches) > 1:
            other.join()
        if errors:
            raise errors[0]

    def _batch(self, files: list[_File], folders: OpenFolders) -> tuple[int, int]:
        """Write the files of one block; return their number and total bytes."""
        raw = memoryview(self.catalog.raw_block(files[0].place))
        total = 0
        for file in files:
            start, length = file.place.offset, file.place.length
            data = raw[start : start + length]
            if length != file.entry.size or blake3(data).digest() != file.entry.content:
                raise Damaged(f"{file.entry.content.hex()} does not match its content id")
            with self._new(folders.open(file.parent), file) as fd:
                if os.write(fd, data) < length:
                    _write_at(fd, data, 0)
            total += length
        return len(files), total

    def _borrowed(self, file: _File) -> bool:
        """Build a file of the lender's blocks. Return False, with nothing left behind, if that cannot be."""
        if not self.lender.can_share or file.entry.size < LEAST or file.entry.link:
            return False
        at = self._opened.open(file.parent)
        try:
            with self._new(at, file) as fd:
                if not self.lender.lend(file.path, file.entry, fd):
                    raise _NotLentError
        except _NotLentError:
            os.unlink(file.name, dir_fd=at)
            return False
        self.tick(1, file.entry.size)
        return True

    @contextmanager
    def _new(self, at: int, file: _File) -> Iterator[int]:
        """Create a file to write, and give it its attributes once it has its bytes."""
        mode = file.entry.mode & 0o777
        if mode & self._umask:
            mode = 0o600
        fd = os.open(file.name, _CREATE, mode, dir_fd=at)
        try:
            yield fd
            set_on_new(fd, self.rules.attributes(file.entry), (*self._owner, mode))
            if self.made is not None:
                self.made.note(fd, file.entry)
        finally:
            os.close(fd)

    def _file(self, at: int, file: _File) -> None:
        entry = file.entry
        if entry.link and self._linked(at, file.name, entry):
            return
        with self._new(at, file) as fd:
            self._write(fd, entry)
        if entry.link:
            self._links[entry.link] = file.parent + b"/" + file.name if file.parent else file.name
        self.tick(1, 0)

    def _write(self, fd: int, entry: Entry) -> None:
        offset = 0
        for length, content in pieces_of(self.catalog, entry):
            if content is not None:
                data = self.catalog.blob(content)
                if len(data) != length:
                    raise StoreError(f"the length of {content.hex()} differs from the one recorded for its file")
                _write_at(fd, data, offset)
            offset += length
            self.tick(0, length)
        if offset and content is None:  # a hole at the end
            os.ftruncate(fd, offset)

    def _linked(self, at: int, name: bytes, entry: Entry) -> bool:
        """Hard-link the file to an existing member of its group, in the tree or the stage; False if there is none."""
        for path in self.live_links.get(entry.link, ()):
            try:
                with parent_beneath(self.tree_fd, path) as (source, last):
                    os.link(last, name, src_dir_fd=source, dst_dir_fd=at, follow_symlinks=False)
                return True
            except OSError:
                continue  # it was removed meanwhile, or hard links are not permitted: fall back to a new file
        if first := self._links.get(entry.link):
            with parent_beneath(self.stage_fd, first) as (source, last):
                os.link(last, name, src_dir_fd=source, dst_dir_fd=at, follow_symlinks=False)
            return True
        return False

    def _special(self, at: int, name: bytes, entry: Entry) -> None:
        wished = self.rules.attributes(entry)
        if entry.kind == SYMLINK:
            os.symlink(entry.target, name, dir_fd=at)
        elif entry.kind == FIFO:
            os.mkfifo(name, 0o600, dir_fd=at)
        else:
            raise StoreError(f"a {entry.type} cannot be restored")
        if wished.uid is not None:
            os.chown(name, wished.uid, wished.gid, dir_fd=at, follow_symlinks=False)
        if entry.kind == FIFO:
            os.chmod(name, wished.mode, dir_fd=at)
        if wished.xattrs:
            set_xattrs(f"/proc/self/fd/{at}/{os.fsdecode(name)}", wished.xattrs, follow=False)
        os.utime(name, ns=(wished.mtime_ns, wished.mtime_ns), dir_fd=at, follow_symlinks=False)
        self.tick(1, 0)


class _NotLentError(Exception):
    pass


def _umask() -> int:
    # os.umask() cannot read the umask without changing it for every thread of the process.
    with open("/proc/self/status") as status:
        for line in status:
            if line.startswith("Umask:"):
                return int(line.split()[1], 8)
    return 0o777


def _write_at(fd: int, data: bytes | memoryview, offset: int) -> None:
    view = memoryview(data)
    while view:
        written = os.pwrite(fd, view, offset)
        view, offset = view[written:], offset + written
