"""Read one entry of a live tree, its record and its bytes, as one consistent state of the file."""

import errno
import os
import stat
import time
from collections.abc import Callable, Iterator
from typing import Protocol

from blake3 import blake3

from . import blocks
from .file_system import extents
from .files import Found
from .folded import fold, turns
from .objects import (
    EMPTY,
    FIFO,
    FILE,
    IGNORED,
    KIND_NAMES,
    KIND_OF_MODE,
    LISTED,
    NOTHING,
    RECORD,
    SYMLINK,
    TARGET,
    TORN,
    TURNED,
    TURNS,
    UNKEPT,
    XATTRS,
    Folder,
    Row,
    encode_list,
    encode_xattrs,
)
from .stat_keys import stat_key

LARGE = 1 << 20  # bytes; larger files are split by content-defined chunking
CUT = {"min_size": 1 << 17, "avg_size": 1 << 19, "max_size": 1 << 21}
_WINDOW = 2 << 20  # bytes; the cuts are the same with any that holds a piece
_OVERLAP = 1 << 16  # bytes of the previous piece that `inspect` gets again, so that a cut cannot hide a match
TRIES = 6
_HALF = 1 << 63  # ns; times beyond are folded
_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY

LEFT_OUT = "ignored by the environment"  # the reason why an entry is skipped

Inspect = Callable[[bytes, bytes], None]


class Sink(Protocol):
    """The destination of content: a Writer that stores it, or a Sketch that only computes ids."""

    def add(self, data: bytes, *, kind: int = blocks.DATA, content: bytes | None = None) -> bytes: ...

    def folder(self, content: bytes) -> Folder: ...


class Moved(Exception):
    """The entry no longer matches its stat; stat it again."""


def make_row(name: bytes, found: os.stat_result, content: bytes, *, flags: int = 0, extras=None) -> Row:
    kind = KIND_OF_MODE.get(stat.S_IFMT(found.st_mode), 0)
    if turned := turns(found.st_mtime_ns):
        extras = {**(extras or {}), TURNS: TURNED.pack(turned)}
    return Row(
        name,
        RECORD.pack(
            kind,
            flags,
            stat.S_IMODE(found.st_mode),
            found.st_uid,
            found.st_gid,
            fold(found.st_mtime_ns),
            found.st_size if kind in (FILE, SYMLINK) else 0,
            content,
        ),
        extras,
    )


class LeavesOut(Protocol):
    """Say which entries of a tree are not stored; `digest` differs when the answers for the same tree may."""

    digest: str

    def __call__(self, path: bytes, is_folder: bool) -> bool: ...


def ignored_row(name: bytes, found: os.stat_result) -> Row:
    """Return a row that stays the same while the entry's content changes."""
    constant = Found(found.st_mode, 0, 0, st_uid=found.st_uid, st_gid=found.st_gid)
    return make_row(name, constant, NOTHING, flags=UNKEPT | IGNORED)


class Reader:
    """Turn entries of a tree into rows. `inspect` gets every byte that is read, before anything is committed."""

    def __init__(self, sink: Sink, *, inspect: Inspect | None = None, check: Callable[[int], None]):
        self.sink, self.inspect, self.check = sink, inspect, check
        self._euid = os.geteuid()

    def row(self, at: int, name: bytes, path: str, found: os.stat_result) -> tuple[Row, os.stat_result, str]:
        """Return (row, its stat, why the content is not kept or ""). Raise Moved if the entry was replaced."""
        kind = KIND_OF_MODE.get(stat.S_IFMT(found.st_mode), 0)
        if kind == FILE:
            return self._file(at, name, path, found)
        if kind == SYMLINK:
            return self._symlink(at, name, path, found)
        return self.special(name, found, self.named_xattrs(at, name) if kind == FIFO else {})

    def special(self, name: bytes, found: os.stat_result, extras: dict) -> tuple[Row, os.stat_result, str]:
        """Return the same as `row` for a FIFO, which is kept, or for a socket or device, which is only listed."""
        kind = KIND_OF_MODE.get(stat.S_IFMT(found.st_mode), 0)
        if kind == FIFO:
            return make_row(name, found, NOTHING, extras=extras), found, ""
        return make_row(name, found, NOTHING, flags=UNKEPT), found, f"a {KIND_NAMES[kind]} has no content to keep"

    def _symlink(self, at, name, path, found):
        try:
            target = os.readlink(name, dir_fd=at)
        except OSError as error:
            raise Moved from error
        # Only root can set extended attributes on a symlink.
        extras = self.named_xattrs(at, name) if self._euid == 0 else {}
        return self.symlink(name, os.fsencode(path), found, target, extras)

    def symlink(self, name: bytes, path: bytes, found: os.stat_result, target: bytes, extras: dict):
        if self.inspect:
            self.inspect(path, target)
        return make_row(name, found, blake3(target).digest(), extras={TARGET: target} | extras), found, ""

    def _file(self, at, name, path, found):
        if row := self._plain(at, name, path, found):
            return row, found, ""
        try:
            fd = self._open(at, name, found)
        except PermissionError:
            return make_row(name, found, NOTHING, flags=UNKEPT), found, "permission denied"
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.ELOOP, errno.ENXIO, errno.ENOTDIR):
                raise Moved from error
            return make_row(name, found, NOTHING, flags=UNKEPT), found, f"cannot be read: {error.strerror}"
        try:
            return self._open_file(fd, name, path, found)
        except OSError as error:
            return make_row(name, found, NOTHING, flags=UNKEPT), found, f"cannot be read: {error.strerror}"
        finally:
            os.close(fd)

    def _plain(self, at, name, path, found) -> Row | None:
        """Read a small file as most are, in one go; None if anything about it is out of the ordinary."""
        size, mtime_ns = found.st_size, found.st_mtime_ns
        if not 0 < size <= LARGE or found.st_blocks * 512 < size or not -_HALF <= mtime_ns < _HALF:
            return None
        try:
            fd = self._open(at, name, found)
        except OSError:
            return None
        try:
            data = os.pread(fd, size + 1, 0)
            if len(data) != size:
                return None
            content, _ = self.whole(path, data)
            xattrs, after = os.listxattr(fd), os.fstat(fd)
        except OSError:
            return None
        finally:
            os.close(fd)
        if xattrs or stat_key(after) != stat_key(found) or not stat.S_ISREG(after.st_mode):
            return None
        mode = stat.S_IMODE(found.st_mode)
        return Row(name, RECORD.pack(FILE, 0, mode, found.st_uid, found.st_gid, mtime_ns, size, content))

    def _open(self, at, name, found):
        if self._euid in (0, found.st_uid):  # only the owner and root may use O_NOATIME
            try:
                return os.open(name, _FLAGS | os.O_NOATIME, dir_fd=at)
            except PermissionError:
                pass  # in a user namespace, or the owner has just changed
        return os.open(name, _FLAGS, dir_fd=at)

    def _open_file(self, fd, name, path, found):
        for attempt in range(TRIES):
            content, flags = self._content(fd, path, found)
            xattrs = fd_xattrs(fd)
            after = os.fstat(fd)
            if stat_key(after) == stat_key(found):
                return self.file(name, found, content, flags, xattrs, False)
            if not stat.S_ISREG(after.st_mode):
                raise Moved
            found = after
            time.sleep(0.001 * attempt)
        return self.file(name, found, content, flags, xattrs, True)

    def file(self, name: bytes, found: os.stat_result, content: bytes, flags: int, extras: dict, torn: bool):
        if not torn:
            return make_row(name, found, content, flags=flags, extras=extras), found, ""
        row = make_row(name, found, content, flags=flags | TORN, extras=extras)
        return row, found, f"kept as last read: it changed during each of {TRIES} readings"

    def _content(self, fd, path, found) -> tuple[bytes, int]:
        size = found.st_size
        runs = extents(fd, found)
        if size <= LARGE and all(is_data for _, _, is_data in runs):
            return self.whole(path, os.pread(fd, size + 1, 0) if size else b"")
        return self.pieces(path, runs, lambda length, offset: os.pread(fd, length, offset))

    def whole(self, path: str, data: bytes) -> tuple[bytes, int]:
        """Store a file as one object; return its content id and flags."""
        if not data:
            return EMPTY, 0
        if self.inspect:
            self.inspect(os.fsencode(path), data)
        self.check(len(data))
        return self.sink.add(data), 0

    def pieces(self, path: str, runs, read: Callable[[int, int], bytes]) -> tuple[bytes, int]:
        """Store a file in pieces; return the id of its list object and its flags."""
        pieces = list(self._pieces(path, runs, read))
        listed = encode_list(sum(length for length, _ in pieces), pieces)
        return self.sink.add(listed, kind=blocks.META), LISTED

    def _pieces(self, path, runs, read) -> Iterator[tuple[int, bytes | None]]:
        for start, end, is_data in runs:
            if not is_data:
                yield end - start, None
                continue
            before = b""
            for piece in cut(read, start, end):
                if self.inspect:
                    self.inspect(os.fsencode(path), before + piece)
                    before = (before + piece)[-_OVERLAP:]
                self.check(len(piece))
                yield len(piece), self.sink.add(piece)

    def named_xattrs(self, at: int, name: bytes) -> dict[int, bytes]:
        # Python has no listxattr relative to a descriptor; the magic link names the open folder even if it was moved.
        path = b"/proc/self/fd/%d/%s" % (at, name)
        try:
            names = os.listxattr(path, follow_symlinks=False)
            pairs = {os.fsencode(key): os.getxattr(path, key, follow_symlinks=False) for key in names}
        except OSError:
            return {}
        return {XATTRS: encode_xattrs(pairs)} if pairs else {}


def fd_xattrs(fd: int) -> dict[int, bytes]:
    """Return the extras that hold the extended attributes of an open file or folder."""
    try:
        names = os.listxattr(fd)
        if not names:
            return {}
        return {XATTRS: encode_xattrs({os.fsencode(key): os.getxattr(fd, key) for key in names})}
    except OSError:  # the file system does not support them
        return {}


def cut(read: Callable[[int, int], bytes], start: int, end: int) -> Iterator[bytes]:
    """Split a part of a file by content-defined chunking (FastCDC); a change moves only the cuts next to it.

    `read(length, offset)` returns the bytes; it is called in ascending order of offsets.
    """
    from pyfastcdc import FastCDC  # slow to import, and only large files need it

    cutter = FastCDC(**CUT)
    carried = b""
    while start < end:
        window = read(min(_WINDOW, end - start), start)
        if not window:
            break  # truncated meanwhile; the stat afterwards shows it
        start += len(window)
        data = carried + window
        pieces = [(piece.offset, piece.length) for piece in cutter.cut_buf(data)]
        carried = b""
        if start < end:
            # The last piece ends at the end of the window, not at a cut found in the content.
            carried = data[pieces.pop()[0] :]
        for offset, length in pieces:
            yield data[offset : offset + length]
    if carried:
        yield carried


__all__ = ["CUT", "LARGE", "Inspect", "Moved", "Reader", "Sink", "cut", "extents", "fd_xattrs", "make_row"]
