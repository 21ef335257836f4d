"""Unpack untrusted archives: no entry may leave the target folder, and limits keep the disk from filling up.

`tarfile` is only the parser. Names are opened beneath the folder without following symlinks, so that no member can
redirect a later one out of it. Symlinks are kept as they are, wherever they lead, as a clone keeps them.
"""

import gzip
import os
import tarfile
import threading
import unicodedata
import zlib
from typing import BinaryIO, NamedTuple

import zstandard

from .depth import MAX_DEPTH
from .errors import StoreError, name_the_path, path_of
from .journal import empty
from .progress import Report, Watch
from .safe_open import BadPath, open_beneath, open_root, parent_beneath, split_path
from .zstd_stream import ZstdReader

_CHUNK = 1 << 20
_HEADER_BYTES = 1 << 20  # no legitimate PAX or long-name header is larger
_HEADER_TYPES = (
    tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK,
)  # fmt: skip
_KINDS = {tarfile.CHRTYPE: "a character device", tarfile.BLKTYPE: "a block device"}
_XATTR = "SCHILY.xattr.user."


class Limits(NamedTuple):
    """Limits for one archive. `bytes` bounds the data written, `sparse_bytes` the apparent sizes."""

    bytes: int = 10 << 30
    entries: int = 1_000_000
    sparse_bytes: int = 1 << 40


class Imported(NamedTuple):
    """The entries and bytes unpacked from an archive."""

    entries: int
    bytes: int


class Refused(StoreError):
    """The archive is invalid, or an entry is not allowed; nothing of it was kept."""


def import_archive(
    fileobj: BinaryIO,
    folder: str | os.PathLike,
    limits: Limits | None = None,
    *,
    owner: tuple[int, int] | None = None,
    progress: Report | None = None,
    cancel: threading.Event | None = None,
) -> Imported:
    """Unpack a tar, tar.gz or tar.zst into an empty folder. Raise StoreError if the folder is not empty.

    Any later error, such as Refused for the archive or Cancelled, leaves the folder empty.

    Entries belong to `owner` (uid, gid) or to the calling user; setuid and setgid bits are dropped.
    """
    root_fd = open_root(folder)
    try:
        if os.listdir(root_fd):
            raise StoreError(f"{os.fspath(folder)} is not empty")
        try:
            return _Unpacking(root_fd, limits or Limits(), owner, Watch(progress, cancel)).run(fileobj)
        except BaseException as error:
            empty(root_fd)
            if isinstance(error, (tarfile.TarError, EOFError, zlib.error, zstandard.ZstdError, gzip.BadGzipFile)):
                raise Refused(f"this is not a whole tar archive: {error}") from error
            if isinstance(error, (OSError, ValueError, OverflowError)):
                raise Refused(f"the archive cannot be unpacked: {error}{path_of(error)}") from error
            raise
    finally:
        os.close(root_fd)


class _SmallHeaders(tarfile.TarInfo):
    """A header parser that limits the size of extended headers, which `tarfile` reads into memory."""

    @classmethod
    def frombuf(cls, buf, encoding, errors):
        info = super().frombuf(buf, encoding, errors)
        if info.type in _HEADER_TYPES and info.size > _HEADER_BYTES:
            raise Refused("the archive has a header of more than a megabyte")
        if info.size < 0:
            raise Refused("the archive has a member of negative size")
        return info


class _Bounded:
    """A stream that raises Refused once more than `limit` bytes were read."""

    def __init__(self, stream: BinaryIO, limit: int):
        self._stream, self._left = stream, limit

    def read(self, size: int = -1) -> bytes:
        data = self._stream.read(min(size, _CHUNK) if size >= 0 else _CHUNK)
        self._left -= len(data)
        if self._left < 0:
            raise Refused("the archive holds more bytes than is allowed")
        return data


class _Unpacking:
    def __init__(self, root_fd: int, limits: Limits, owner: tuple[int, int] | None, watch: Watch):
        self.watch = watch
        self.root_fd, self.limits, self.owner = root_fd, limits, owner
        self.entries = self.bytes = self.apparent = 0
        self._seen: dict[bytes, bool] = {}  # path -> is a folder
        self._folded: dict[str, bytes] | None = {} if _folds_names(root_fd) else None
        self._folders: list[tuple[bytes, tarfile.TarInfo]] = []

    def run(self, fileobj: BinaryIO) -> Imported:
        overhead = 4096 * self.limits.entries + (1 << 20)
        stream = _Bounded(_decompressed(fileobj), self.limits.bytes + overhead)
        with tarfile.open(
            fileobj=stream, mode="r|", tarinfo=_SmallHeaders, encoding="utf-8", errors="surrogateescape"
        ) as archive:
            for info in archive:
                try:
                    self._member(archive, info)
                except (OSError, ValueError, OverflowError) as error:
                    name_the_path(error, info.name)
                    raise
                archive.members.clear()  # do not keep a million members in memory
        for path, info in reversed(self._folders):
            fd = open_beneath(self.root_fd, path, os.O_RDONLY | os.O_DIRECTORY)
            try:
                self._finish(fd, info)
            finally:
                os.close(fd)
        return Imported(self.entries, self.bytes)

    def _member(self, archive: tarfile.TarFile, info: tarfile.TarInfo) -> None:
        path = self._path(info)
        if not path:
            return  # the target folder itself
        self._count(path, info)
        self.watch.tick(1)
        self._parents(path)
        if info.isdir():
            self._folder(path, info)
        elif info.issym():
            self._symlink(path, info)
        elif info.islnk():
            self._hard_link(path, info)
        elif info.isreg():
            self._file(archive, path, info)
        elif info.isfifo():
            with parent_beneath(self.root_fd, path) as (at, name):
                os.mkfifo(name, 0o600, dir_fd=at)
                self._give(at, name)
                os.chmod(name, info.mode & 0o777, dir_fd=at)
                os.utime(name, ns=(_mtime(info),) * 2, dir_fd=at, follow_symlinks=False)
        else:
            raise Refused(f"{info.name!r} is {_KINDS.get(info.type, 'of a kind that is not taken')}")

    def _path(self, info: tarfile.TarInfo) -> bytes:
        try:
            parts = split_path(os.fsencode(info.name))
        except BadPath as error:
            raise Refused(f"{info.name!r}: {error}") from error
        if len(parts) > MAX_DEPTH or any(len(part) > 255 for part in parts):
            raise Refused(f"{info.name[:80]!r}… is nested too deeply, or has too long a name")
        return b"/".join(parts)

    def _count(self, path: bytes, info: tarfile.TarInfo) -> None:
        self.entries += 1
        if self.entries > self.limits.entries:
            raise Refused(f"the archive holds more than {self.limits.entries} entries")
        if info.isreg():
            data = sum(size for _, size in info.sparse) if info.sparse else info.size
            self.bytes += data
            self.apparent += info.size
            if self.bytes > self.limits.bytes or self.apparent > self.limits.sparse_bytes:
                raise Refused("the archive holds more bytes than is allowed")
        if path in self._seen and not (self._seen[path] and info.isdir()):
            raise Refused(f"{info.name!r} is there twice")
        self._note(path, info.isdir())

    def _note(self, path: bytes, is_folder: bool) -> None:
        self._seen[path] = is_folder
        if self._folded is not None:
            name = os.fsdecode(path)
            other = os.fsdecode(self._folded.setdefault(unicodedata.normalize("NFC", name).casefold(), path))
            if other != name:
                composed = unicodedata.normalize("NFC", name) == unicodedata.normalize("NFC", other)
                how = "Unicode normalization" if composed else "upper and lower case"
                raise Refused(f"{name!r} and {other!r} differ only in {how}, which this host does not tell apart")

    def _parents(self, path: bytes) -> None:
        if self._seen.get(path.rpartition(b"/")[0]):
            return
        parts = path.split(b"/")
        for count in range(1, len(parts)):
            folder = b"/".join(parts[:count])
            if self._seen.get(folder) is None:
                self._note(folder, True)
                self._make_folder(folder)
            elif not self._seen[folder]:
                raise Refused(f"{os.fsdecode(path)!r} lies below something that is not a folder")

    def _make_folder(self, path: bytes) -> None:
        with parent_beneath(self.root_fd, path) as (at, name):
            os.mkdir(name, 0o755, dir_fd=at)
            self._give(at, name)

    def _folder(self, path: bytes, info: tarfile.TarInfo) -> None:
        with parent_beneath(self.root_fd, path) as (at, name):
            try:
                os.mkdir(name, 0o700, dir_fd=at)
                self._give(at, name)
            except FileExistsError:
                pass  # created as a parent before its own header arrived
        self._folders.append((path, info))

    def _symlink(self, path: bytes, info: tarfile.TarInfo) -> None:
        if not info.linkname or "\0" in info.linkname:
            raise Refused(f"{info.name!r} is a link without a valid target")
        with parent_beneath(self.root_fd, path) as (at, name):
            os.symlink(os.fsencode(info.linkname), name, dir_fd=at)
            self._give(at, name)
            os.utime(name, ns=(_mtime(info),) * 2, dir_fd=at, follow_symlinks=False)

    def _hard_link(self, path: bytes, info: tarfile.TarInfo) -> None:
        try:
            source = b"/".join(split_path(os.fsencode(info.linkname)))
        except BadPath as error:
            raise Refused(f"{info.name!r} is a hard link that leads out of the tree") from error
        if self._seen.get(source) is not False or source == path:
            raise Refused(f"{info.name!r} is a hard link to something that has not come before")
        with parent_beneath(self.root_fd, source) as (old, old_name), parent_beneath(self.root_fd, path) as (at, name):
            os.link(old_name, name, src_dir_fd=old, dst_dir_fd=at, follow_symlinks=False)

    def _file(self, archive: tarfile.TarFile, path: bytes, info: tarfile.TarInfo) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        fd = open_beneath(self.root_fd, path, flags, 0o600)
        try:
            # The archive holds only the data extents, one after the other; holes take no space in it.
            archive.fileobj.seek(info.offset_data)
            for offset, length in info.sparse or [(0, info.size)]:
                self._copy(archive.fileobj, fd, offset, length)
            os.ftruncate(fd, info.size)
            self._finish(fd, info)
        finally:
            os.close(fd)

    def _copy(self, source: BinaryIO, fd: int, offset: int, length: int) -> None:
        end = offset + length
        while offset < end:
            data = source.read(min(_CHUNK, end - offset))
            if not data:
                raise Refused("the archive ends in the middle of a file")
            view = memoryview(data)
            while view:
                written = os.pwrite(fd, view, offset)
                view, offset = view[written:], offset + written
            self.watch.tick(0, len(data))

    def _finish(self, fd: int, info: tarfile.TarInfo) -> None:
        if self.owner:
            os.chown(fd, *self.owner)
        os.chmod(fd, info.mode & 0o777 | (info.mode & 0o1000 if info.isdir() else 0))
        for key, value in info.pax_headers.items():
            if key.startswith(_XATTR):
                name = key.removeprefix("SCHILY.xattr.")
                os.setxattr(fd, name, value.encode(errors="surrogateescape"))
        os.utime(fd, ns=(_mtime(info),) * 2)

    def _give(self, at: int, name: bytes) -> None:
        if self.owner:
            os.chown(name, *self.owner, dir_fd=at, follow_symlinks=False)


def _folds_names(root_fd: int) -> bool:
    """Return whether the file system of an empty folder takes names for one that differ in case or normalization."""
    name = "A\u00e9".encode()
    os.mkdir(name, 0o700, dir_fd=root_fd)
    try:
        others = ("a\u00e9", "Ae\u0301")
        return any(os.access(other.encode(), os.F_OK, dir_fd=root_fd, follow_symlinks=False) for other in others)
    finally:
        os.rmdir(name, dir_fd=root_fd)


def _mtime(info: tarfile.TarInfo) -> int:
    whole, _, part = info.pax_headers.get("mtime", str(int(info.mtime))).partition(".")
    fraction = int((part + "000000000")[:9])
    return int(whole) * 10**9 + (-fraction if whole.startswith("-") else fraction)


# What the content of other archives contains at (position, bytes).
_OTHERS = {
    (0, b"PK\x03\x04"): "a zip",
    (4, b"1AY&SY"): "a bzip2 file",
    (0, b"\xfd7zXZ\x00"): "an xz file",
    (0, b"7z\xbc\xaf"): "a 7z archive",
}


def _decompressed(fileobj: BinaryIO) -> BinaryIO:
    start = fileobj.read(10)
    stream = _Rejoined(start, fileobj)
    if other := next((words for (at, magic), words in _OTHERS.items() if start[at:].startswith(magic)), ""):
        raise Refused(f"this is {other}: send a tar, or a tar compressed with gzip or zstd")
    if start[:2] == b"\x1f\x8b":
        return gzip.GzipFile(fileobj=stream)
    if start.startswith(b"\x28\xb5\x2f\xfd"):
        return ZstdReader(stream)
    return stream


class _Rejoined:
    """A stream with the bytes that were read to detect its format put back in front."""

    def __init__(self, start: bytes, rest: BinaryIO):
        self._start, self._rest = start, rest

    def read(self, size: int = -1) -> bytes:
        if not self._start:
            return self._rest.read(size)
        if size < 0:
            size = _CHUNK
        start, self._start = self._start[:size], self._start[size:]
        return start or b""
