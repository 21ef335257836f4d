"""Parse a git index (versions 2 to 4), so that neither git nor the repository's configuration has to run."""

import struct
from collections.abc import Iterator
from typing import NamedTuple

_HEAD = struct.Struct(">4sII")
_ENTRIES = {20: struct.Struct(">10I20sH"), 32: struct.Struct(">10I32sH")}  # by the bytes of an object's name
ASSUME_VALID, EXTENDED, STAGE, NAME_LENGTH = 0x8000, 0x4000, 0x3000, 0x0FFF
SKIP_WORKTREE = 0x4000  # of the extended flags
DIRECTORY = 0o040000  # mode of a folder that a sparse index leaves out
GITLINK = 0o160000
MAX_PATH = 4096  # bytes; Linux opens no longer one
# All paths together, against the size of the index: version 4 writes of each only what differs from the one before.
MAX_SPREAD = 4
SPARE_BYTES = 1 << 20
MAX_EXTENSIONS = 100


class Unreadable(ValueError):
    """The index cannot be read; the message says why, for people."""


class Indexed(NamedTuple):
    """One path of the index."""

    mode: int
    size: int
    mtime_ns: int  # whole seconds if git was built without finer times
    sha: bytes
    is_conflict: bool
    is_skipped: bool  # sparse checkout, or marked as never changed


class Index(NamedTuple):
    entries: dict[bytes, Indexed]
    tree: bytes | None  # id of the tree that a commit would have, if the index has it cached


def parse(data: bytes, max_entries: int) -> Index:
    """Return the index. Raise Unreadable for one of another form or with more than `max_entries` entries.

    It is also raised for paths that take much more memory than the index has bytes.
    """
    reader = _Reader(data, max_entries)
    return Index(dict(reader.entries()), reader.cached_tree)


def entries(data: bytes, max_entries: int) -> Iterator[tuple[bytes, Indexed]]:
    """Yield what `parse` returns, for who keeps little of it: the error may come after some. Raise Unreadable."""
    return _Reader(data, max_entries).entries()


class _Reader:
    """One pass over an index."""

    def __init__(self, data: bytes, max_entries: int):
        self._data, self._max_entries = data, max_entries
        self.cached_tree: bytes | None = None  # known after the entries

    def entries(self) -> Iterator[tuple[bytes, Indexed]]:
        """Yield each path with what is said of it; then take what follows them. Raise Unreadable."""
        try:
            yield from self._entries()
        except Unreadable:
            raise
        except (struct.error, IndexError, ValueError) as error:
            raise Unreadable("the index is cut short, or a path in it is too long") from error

    def _entries(self) -> Iterator[tuple[bytes, Indexed]]:
        data = self._data
        signature, version, count = _HEAD.unpack_from(data)
        if signature != b"DIRC" or version not in (2, 3, 4):
            raise Unreadable("the index has a form that is not read here")
        if count > self._max_entries:
            raise Unreadable(f"the index has more than {self._max_entries:,} entries")
        at, path, left = _HEAD.size, b"", MAX_SPREAD * len(data) + SPARE_BYTES
        name_bytes = _name_bytes(data, version)
        for _ in range(count):
            path, entry, at = _entry(data, at, version, path, _ENTRIES[name_bytes])
            left -= len(path)
            if left < 0:
                raise Unreadable("the paths in the index are too long")
            yield path, entry
        self.cached_tree = _cached_tree(data, at, name_bytes)


def _name_bytes(data: bytes, version: int) -> int:
    """Return 20, or 32 in a repository of SHA-256: the index does not say it, but where the first path is does."""
    for count, form in _ENTRIES.items():
        at = _HEAD.size + form.size
        if len(data) > at:
            flags = form.unpack_from(data, _HEAD.size)[-1]
            at += (2 if flags & EXTENDED else 0) + (version == 4)
            if data.find(b"\0", at) - at == flags & NAME_LENGTH:
                return count
    return 20


def _entry(data: bytes, at: int, version: int, before: bytes, form: struct.Struct) -> tuple[bytes, Indexed, int]:
    start = at
    _, _, seconds, nanoseconds, _, _, mode, _, _, size, sha, flags = form.unpack_from(data, at)
    at, more = at + form.size, 0
    if flags & EXTENDED:
        (more,) = struct.unpack_from(">H", data, at)
        at += 2
    if version == 4:
        cut, at = _offset(data, at, len(before))
        kept = len(before) - cut
        end = data.index(b"\0", at, at + MAX_PATH - kept + 1)
        path, at = before[:kept] + data[at:end], end + 1
    else:
        end = data.index(b"\0", at, at + MAX_PATH + 1)
        path, at = data[at:end], start + (end - start + 8) // 8 * 8
    skipped = bool(flags & ASSUME_VALID or more & SKIP_WORKTREE)
    entry = Indexed(mode, size, seconds * 10**9 + nanoseconds, sha, bool(flags & STAGE), skipped)
    return path, entry, at


def _offset(data: bytes, at: int, most: int) -> tuple[int, int]:
    """Return (number, position after it) of git's offset encoding. Raise Unreadable for a number beyond `most`."""
    value = data[at] & 0x7F
    while data[at] & 0x80 and value <= most:
        at += 1
        value = ((value + 1) << 7) | (data[at] & 0x7F)
    if value > most:
        raise Unreadable("a path in the index drops more than the path before it has")
    return value, at + 1


def _cached_tree(data: bytes, at: int, name_bytes: int) -> bytes | None:
    """Return the root of the cached tree; None if it is not valid. Raise Unreadable for a split index."""
    for _ in range(MAX_EXTENSIONS):
        if at + 8 > len(data) - name_bytes:
            return None
        name, size = struct.unpack_from(">4sI", data, at)
        body, at = data[at + 8 : at + 8 + size], at + 8 + size
        if name == b"link":
            raise Unreadable("the index is split")
        if name == b"TREE" and body[:1] == b"\0":
            line, _, rest = body[1:].partition(b"\n")
            return rest[:name_bytes] if not line.startswith(b"-") else None
    raise Unreadable(f"the index has more than {MAX_EXTENSIONS} extensions")
