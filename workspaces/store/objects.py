"""Encode and decode the store's objects: folders, and lists of the pieces of large files.

An object's id is the BLAKE3 hash of its bytes. A folder object holds the records of its entries, so its id covers
everything below it (a Merkle tree). The root is a folder object with one entry, whose name is empty. `docs/store.md`
specifies the byte format.
"""

import stat
import struct
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from blake3 import blake3

from .errors import Damaged
from .folded import fold, unfold

FILE, FOLDER, SYMLINK, FIFO, SOCKET, CHAR_DEVICE, BLOCK_DEVICE = range(1, 8)
KIND_NAMES = ("?", "file", "folder", "symlink", "fifo", "socket", "char device", "block device")
KIND_OF_MODE = {
    stat.S_IFREG: FILE,
    stat.S_IFDIR: FOLDER,
    stat.S_IFLNK: SYMLINK,
    stat.S_IFIFO: FIFO,
    stat.S_IFSOCK: SOCKET,
    stat.S_IFCHR: CHAR_DEVICE,
    stat.S_IFBLK: BLOCK_DEVICE,
}

LISTED = 1  # the content is a list of pieces, not a blob
TORN = 2  # the file changed during each read; the content is from the last one
UNKEPT = 4  # the entry existed, but its content could not be stored
IGNORED = 8  # with UNKEPT: a rule of the caller leaves it out; its time and size are not recorded

TARGET, XATTRS, LINK, TURNS = 1, 2, 3, 4  # tags of the extras of an entry
TURNED = struct.Struct("<i")  # the value of TURNS; see `folded`
MOST_BYTES = (1 << 63) - 1  # the largest sum that is recorded: sizes of sparse files may add up to more

HEADER = struct.Struct("<2sBBIQQ")  # "HT", version, 0, entries here, entries and bytes below
RECORD = struct.Struct("<BBHIIqQ32s")  # kind, flags, mode, uid, gid, folded mtime_ns, size, content
_EXTRA = struct.Struct("<IBI")  # entry, tag, length
_COUNT = struct.Struct("<I")
_LIST_HEADER = struct.Struct("<2sBBQ")  # "HL", version, 0, size
_PIECE = struct.Struct("<BQ32s")  # hole or data, length, content
VERSION = 1
NOTHING = bytes(32)
EMPTY = blake3(b"").digest()
_NO_EXTRAS: dict[int, bytes] = {}  # shared, and never changed
_CONTENT = slice(RECORD.size - 32, RECORD.size)


class Entry(NamedTuple):
    """One entry of a folder; `content` is the id of its bytes, of its list of pieces, or of its folder object."""

    name: bytes
    kind: int
    flags: int
    mode: int
    uid: int
    gid: int
    mtime_ns: int
    size: int
    content: bytes
    extras: dict[int, bytes]

    @property
    def type(self) -> str:
        return KIND_NAMES[self.kind]

    @property
    def target(self) -> bytes:
        """The target of a symlink, empty for other entries."""
        return self.extras.get(TARGET, b"")

    @property
    def xattrs(self) -> dict[bytes, bytes]:
        return decode_xattrs(self.extras.get(XATTRS, b""))

    @property
    def link(self) -> bytes:
        """The id of the entry's hard-link group; empty for a file with one link in the tree."""
        return self.extras.get(LINK, b"")

    @property
    def kept(self) -> bool:
        return not self.flags & UNKEPT

    @property
    def is_ignored(self) -> bool:
        return bool(self.flags & IGNORED)

    def record(self) -> bytes:
        kind, flags, mode, uid, gid, mtime_ns, size, content = self[1:9]
        return RECORD.pack(kind, flags, mode, uid, gid, fold(mtime_ns), size, content)

    @classmethod
    def of(cls, name: bytes, fields: tuple, extras: dict[int, bytes]) -> "Entry":
        """Return the entry of a record's fields."""
        if TURNS not in extras:
            return cls(name, *fields, extras)
        mtime_ns = unfold(fields[5], *TURNED.unpack(extras[TURNS]))
        return cls(name, *fields[:5], mtime_ns, *fields[6:], extras)


class Row:
    """An entry of a folder that is being encoded: the packed record, and its variable-length extras."""

    __slots__ = ("extras", "name", "record")

    def __init__(self, name: bytes, record: bytes, extras: dict[int, bytes] | None = None):
        self.name, self.record, self.extras = name, record, extras or _NO_EXTRAS

    def point_at(self, content: bytes) -> None:
        self.record = self.record[: _CONTENT.start] + content

    def group(self, link: bytes) -> None:
        """Set the entry's hard-link group; an empty `link` removes it."""
        self.extras = {tag: value for tag, value in self.extras.items() if tag != LINK}
        if link:
            self.extras[LINK] = link


class Folder:
    """A decoded folder object; `names` are in byte order."""

    __slots__ = ("bytes_below", "entries_below", "extras", "names", "records")

    def __init__(
        self,
        names: list[bytes],
        records: bytes,
        extras: dict[int, dict[int, bytes]],
        entries_below: int,
        bytes_below: int,
    ):
        self.names, self.records, self.extras = names, records, extras
        self.entries_below, self.bytes_below = entries_below, bytes_below

    def __iter__(self) -> Iterator[Entry]:
        for index, (name, fields) in enumerate(zip(self.names, RECORD.iter_unpack(self.records), strict=True)):
            yield Entry.of(name, fields, self.extras.get(index) or {})

    def rows(self) -> list[Row]:
        size = RECORD.size
        return [
            Row(name, self.records[index * size : index * size + size], self.extras.get(index))
            for index, name in enumerate(self.names)
        ]

    def find(self, name: bytes) -> Entry | None:
        index = bisect_left(self.names, name)
        if index == len(self.names) or self.names[index] != name:
            return None
        return Entry.of(name, RECORD.unpack_from(self.records, index * RECORD.size), self.extras.get(index, {}))

    def root(self) -> Entry:
        if self.names != [b""]:
            raise Damaged("the object with this id is not a tree")
        return next(iter(self))


def encode_folder(rows: Iterable[Row], entries_below: int, bytes_below: int) -> bytes:
    """Return the bytes of a folder object. `rows` must be in byte order of their names."""
    rows = list(rows)
    names = b"\0".join([row.name for row in rows])
    extras = [
        _EXTRA.pack(index, tag, len(value)) + value
        for index, row in enumerate(rows)
        if row.extras
        for tag, value in sorted(row.extras.items())
    ]
    return b"".join(
        (
            HEADER.pack(b"HT", VERSION, 0, len(rows), entries_below, min(bytes_below, MOST_BYTES)),
            *[row.record for row in rows],
            _COUNT.pack(len(names)),
            names,
            *extras,
        )
    )


def decode_folder(data: bytes) -> Folder:
    try:
        magic, version, _, count, entries, size = HEADER.unpack_from(data)
        if (magic, version) != (b"HT", VERSION):
            raise Damaged(f"not a folder object of version {VERSION}: {magic!r} version {version}")
        end = HEADER.size + count * RECORD.size
        (length,) = _COUNT.unpack_from(data, end)
        start = end + _COUNT.size
        names = data[start : start + length].split(b"\0") if count else []
        extras: dict[int, dict[int, bytes]] = {}
        at = start + length
        while at < len(data):
            index, tag, length = _EXTRA.unpack_from(data, at)
            at += _EXTRA.size
            extras.setdefault(index, {})[tag] = data[at : at + length]
            at += length
    except struct.error as error:
        raise Damaged(f"a folder object is truncated: {error}") from error
    if len(names) != count or at != len(data):
        raise Damaged("a folder object is inconsistent")
    return Folder(names, data[HEADER.size : end], extras, entries, size)


def encode_list(size: int, pieces: Iterable[tuple[int, bytes | None]]) -> bytes:
    """Return the bytes of a list object. A piece is (length, content id), or (length, None) for a hole."""
    return _LIST_HEADER.pack(b"HL", VERSION, 0, size) + b"".join(
        _PIECE.pack(content is not None, length, content or NOTHING) for length, content in pieces
    )


def decode_list(data: bytes) -> list[tuple[int, bytes | None]]:
    try:
        magic, version, _, size = _LIST_HEADER.unpack_from(data)
        pieces = [
            (length, content if is_data else None)
            for is_data, length, content in _PIECE.iter_unpack(data[_LIST_HEADER.size :])
        ]
    except struct.error as error:
        raise Damaged(f"a list of pieces is truncated: {error}") from error
    if (magic, version) != (b"HL", VERSION) or sum(length for length, _ in pieces) != size:
        raise Damaged("a list of pieces is inconsistent")
    return pieces


def encode_xattrs(pairs: dict[bytes, bytes]) -> bytes:
    return b"".join(struct.pack("<HI", len(name), len(value)) + name + value for name, value in sorted(pairs.items()))


def decode_xattrs(data: bytes) -> dict[bytes, bytes]:
    pairs, at = {}, 0
    while at < len(data):
        name_length, value_length = struct.unpack_from("<HI", data, at)
        at += 6
        pairs[data[at : at + name_length]] = data[at + name_length : at + name_length + value_length]
        at += name_length + value_length
    return pairs
