"""Stat, list, read, write and delete single entries of a live folder, confined to it (see `safe_open`).

Runs inside guests too, so it uses the standard library only. Errors are OSErrors from the system; a write to anything
but a regular file raises EEXIST.
"""

import errno
import os
import secrets
import shutil
import stat
from collections.abc import Iterable, Iterator
from contextlib import closing
from typing import NamedTuple

from . import safe_open

_FOLDER = os.O_RDONLY | os.O_DIRECTORY
_PIECE = 1 << 20


class Found(NamedTuple):
    """A subset of `os.stat_result`, with the same field names."""

    st_mode: int
    st_size: int
    st_mtime_ns: int
    st_ino: int = 0
    st_dev: int = 0
    st_nlink: int = 1
    st_blocks: int = 0
    st_uid: int = 0
    st_gid: int = 0
    st_ctime_ns: int = 0

    @classmethod
    def of(cls, found: os.stat_result) -> "Found":
        return cls(*(getattr(found, name) for name in cls._fields))

    @property
    def st_mtime(self) -> float:
        return self.st_mtime_ns / 1e9

    @property
    def st_ctime(self) -> float:
        return self.st_ctime_ns / 1e9


class Opened:
    """A file on this host, open for reading."""

    def __init__(self, fd: int):
        self._fd, self.info = fd, Found.of(os.fstat(fd))
        self.is_regular = stat.S_ISREG(self.info.st_mode)

    def pread(self, length: int, offset: int) -> bytes:
        return os.pread(self._fd, length, offset)

    def close(self) -> None:
        os.close(self._fd)


class LocalFiles:
    """The entries below the open folder `root` on this host; paths are relative to it."""

    def __init__(self, root: int):
        self.root = root

    def stat(self, path: bytes) -> Found:
        """Return lstat of an entry."""
        return Found.of(safe_open.stat_beneath(self.root, path))

    def entries(self, path: bytes) -> Iterator[tuple[bytes, Found]]:
        """Yield (name, lstat) of each entry of a folder."""
        fd = safe_open.open_beneath(self.root, path, _FOLDER)
        try:
            with os.scandir(fd) as listing:
                for entry in listing:
                    try:
                        yield os.fsencode(entry.name), Found.of(entry.stat(follow_symlinks=False))
                    except FileNotFoundError:
                        continue  # removed since it was listed
        finally:
            os.close(fd)

    def readlink(self, path: bytes) -> bytes:
        return safe_open.readlink_beneath(self.root, path)

    def open(self, path: bytes) -> Opened:
        """Open an entry for reading. The caller closes it and must check `is_regular`."""
        # O_NONBLOCK: opening a FIFO must not wait for a writer.
        return Opened(safe_open.open_beneath(self.root, path, os.O_RDONLY | os.O_NONBLOCK))

    def write(self, path: bytes, pieces: Iterable[bytes], *, mode: int | None, owner: int | None) -> bool:
        """Write a file atomically, creating missing parent folders. Return True if the file is new.

        An existing file keeps its mode unless `mode` is given. `owner` is the uid and gid of the file and of new
        folders, set only when running as root.
        """
        before = self._what_is_there(path)
        if before is not None and not stat.S_ISREG(before.st_mode):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
        self._make_parents(path, owner)
        with safe_open.parent_beneath(self.root, path) as (at, name):
            fresh = b".handrail-" + secrets.token_hex(8).encode()
            fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600, dir_fd=at)
            try:
                _fill(fd, pieces, owner, _mode(before, mode))
                os.rename(fresh, name, src_dir_fd=at, dst_dir_fd=at)
            except BaseException:
                os.unlink(fresh, dir_fd=at)
                raise
            finally:
                os.close(fd)
            _flush_folder(at)
        return before is None

    def delete(self, path: bytes) -> None:
        """Remove a file, a symlink (not its target), or a folder with its contents."""
        with safe_open.parent_beneath(self.root, path) as (at, name):
            if stat.S_ISDIR(os.lstat(name, dir_fd=at).st_mode):
                shutil.rmtree(name, dir_fd=at)
            else:
                os.unlink(name, dir_fd=at)

    def _what_is_there(self, path: bytes) -> os.stat_result | None:
        try:
            return safe_open.stat_beneath(self.root, path)
        except FileNotFoundError:
            return None

    def _make_parents(self, path: bytes, owner: int | None) -> None:
        parts = safe_open.split_path(path)
        for depth in range(1, len(parts)):
            folder = b"/".join(parts[:depth])
            try:
                safe_open.mkdir_beneath(self.root, folder, 0o755)
            except FileExistsError:
                continue
            if owner is not None and os.geteuid() == 0:
                fd = safe_open.open_beneath(self.root, folder, _FOLDER)
                try:
                    os.fchown(fd, owner, owner)
                finally:
                    os.close(fd)


def read_whole(files, path: bytes, limit: int) -> bytes:
    """Return the first `limit` bytes of a file, through LocalFiles or RemoteFiles."""
    with closing(files.open(path)) as file:
        data = bytearray()
        while len(data) < limit and (piece := file.pread(min(_PIECE, limit - len(data)), len(data))):
            data += piece
    return bytes(data)


def _mode(before: os.stat_result | None, asked: int | None) -> int:
    if asked is not None:
        return asked & 0o777
    return stat.S_IMODE(before.st_mode) & 0o777 if before is not None else 0o644


def _fill(fd: int, pieces: Iterable[bytes], owner: int | None, mode: int) -> None:
    for piece in pieces:
        view = memoryview(piece)
        while view:
            view = view[os.write(fd, view) :]
    if owner is not None and os.geteuid() == 0:
        os.fchown(fd, owner, owner)
    os.fchmod(fd, mode)
    os.fsync(fd)


def _flush_folder(at: int) -> None:
    fd = os.open(b".", _FOLDER, dir_fd=at)  # `at` may be an O_PATH descriptor, which cannot be synced
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
