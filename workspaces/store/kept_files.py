"""Single entries of a snapshot, with the interface of those of a live folder (files.py)."""

import errno
import os
import stat
from collections.abc import Iterator

from .errors import Missing
from .files import Found
from .objects import FOLDER

_TYPES = {
    "file": stat.S_IFREG,
    "folder": stat.S_IFDIR,
    "symlink": stat.S_IFLNK,
    "fifo": stat.S_IFIFO,
    "socket": stat.S_IFSOCK,
}


class KeptFiles:
    """The entries of one snapshot; nothing can be written to it."""

    def __init__(self, store, tree_id: str):
        self._store, self._tree = store, tree_id

    def _entry(self, path: bytes):
        try:
            return self._store.entry(self._tree, path)
        except Missing:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT)) from None

    def stat(self, path: bytes) -> Found:
        return _status_of(self._entry(path))

    def entries(self, path: bytes) -> Iterator[tuple[bytes, Found]]:
        found = self._entry(path)
        if found.kind != FOLDER:
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
        if not found.kept:
            return
        for entry in self._store.ls(self._tree, path):
            yield entry.name, _status_of(entry)

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


def _status_of(entry) -> Found:
    kind = _TYPES.get(entry.type, stat.S_IFCHR)
    return Found(kind | stat.S_IMODE(entry.mode), entry.size, entry.mtime_ns, st_blocks=-(-entry.size // 512))
