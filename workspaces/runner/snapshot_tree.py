"""A read-only tree backed by a snapshot: of an archived workspace, or a guest at rest, whose disk cannot be reached."""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager

from workspaces.drivers.base import DriverError
from workspaces.store import Missing, Snapshot, StoreError
from workspaces.store.files import Found
from workspaces.store.objects import FOLDER

_TYPES = {
    "file": stat.S_IFREG,
    "folder": stat.S_IFDIR,
    "symlink": stat.S_IFLNK,
    "fifo": stat.S_IFIFO,
    "socket": stat.S_IFSOCK,
}


class KeptTree:
    """The tree of a snapshot, with the interface of a live tree. Writes fail with EROFS."""

    def __init__(self, store, head):
        self.store, self.tree_id = store, head.tree_hex
        self.snapshot = Snapshot(head.tree_hex, head.entries, head.bytes, 0, [], 0.0)

    @contextmanager
    def files(self, folder: str = "tree") -> Iterator["KeptFiles"]:
        if folder != "tree":
            raise DriverError("The workspace isn't running.")
        yield KeptFiles(self.store, self.tree_id)

    @contextmanager
    def tree_and_home(self) -> Iterator[tuple["KeptFiles", None]]:
        """Open the tree; a snapshot has no home."""
        with self.files() as files:
            yield files, None

    def recover(self, journal: object = None) -> None:
        """Do nothing: a snapshot needs no recovery."""

    @contextmanager
    def opened(self):
        raise StoreError("the workspace is not up")
        yield


class KeptFiles:
    """Single entries of a snapshot; the counterpart of store/files.py for a live folder."""

    def __init__(self, store, tree_id: str):
        self._store, self._tree = store, tree_id

    def _entry(self, path: bytes):
        try:
            return self._store.entry(self._tree, path)
        except Missing:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT)) from None

    def stat(self, path: bytes) -> Found:
        return _found(self._entry(path))

    def entries(self, path: bytes) -> Iterator[tuple[bytes, Found]]:
        found = self._entry(path)
        if found.kind != FOLDER:
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
        if not found.kept:
            return
        for entry in self._store.ls(self._tree, path):
            yield entry.name, _found(entry)

    def readlink(self, path: bytes) -> bytes:
        entry = self._entry(path)
        if entry.type != "symlink":
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        return entry.target

    def open(self, path: bytes) -> "KeptFile":
        return KeptFile(self._store, self._tree, path, self.stat(path))

    def write(self, path: bytes, pieces, *, mode, owner) -> bool:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    def delete(self, path: bytes) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))


class KeptFile:
    def __init__(self, store, tree_id: str, path: bytes, info: Found):
        self._store, self._tree, self._path, self.info = store, tree_id, path, info

    def pread(self, length: int, offset: int) -> bytes:
        return self._store.read(self._tree, self._path, offset, length) if offset < self.info.st_size else b""

    def close(self) -> None:
        pass


def _found(entry) -> Found:
    kind = _TYPES.get(entry.type, stat.S_IFCHR)
    return Found(kind | stat.S_IMODE(entry.mode), entry.size, entry.mtime_ns, st_blocks=-(-entry.size // 512))
