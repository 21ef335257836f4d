"""Read git's objects from their files (loose or packed), without git and without its configuration.

The names are as many bytes as the one that is asked for: 20, or 32 in a repository of SHA-256.
"""

import stat
import struct
import zlib
from collections.abc import Iterator

from workspaces.git_files.work import Work
from workspaces.store.files import read_whole

MAX_OBJECT = 8 << 20  # bytes of one object
MAX_WORK = 256 << 20  # bytes for all objects: read, inflated, copied
READ = 1 << 12  # bytes as which a read of a few bytes counts
STEP = 16  # bytes as which each byte of a delta counts, as it may be a step
MAX_PACKS = 200
MAX_DELTAS = 60  # git's own limit is 50
KINDS = {1: b"commit", 2: b"tree", 3: b"blob", 4: b"tag"}
OFFSET_DELTA, REFERENCE_DELTA = 6, 7
_TABLE = 8 + 1024  # header and fan-out of a pack's index


class Missing(ValueError):
    """The object is not in this repository's own files, or cannot be read here."""


class Objects:
    """The objects below `.git/objects`, through `files` as of a tree of the store. Alternates are not followed.

    Reading raises Spent once it took more than `work` allows.
    """

    def __init__(self, files, work: Work | None = None):
        self._files, self._work = files, work or Work(MAX_WORK)
        self._packs: list[tuple[object, object, int]] | None = None  # (its index, itself, number of objects)

    def read(self, sha: bytes, depth: int = 0) -> tuple[bytes, bytes]:
        """Return (kind, content); `depth` counts the deltas that led here. Raise Missing."""
        try:
            return self._loose(sha)
        except (OSError, zlib.error):
            return self._packed(sha, depth)

    def tree_of(self, commit: bytes) -> bytes:
        """Return the id of a commit's tree. Raise Missing."""
        kind, content = self.read(commit)
        line = content.split(b"\n", 1)[0]
        if kind != b"commit" or not line.startswith(b"tree "):
            raise Missing("it is not a commit")
        return bytes.fromhex(line[5 : 5 + 2 * len(commit)].decode("ascii", "replace"))

    def entries(self, tree: bytes) -> Iterator[tuple[int, bytes, bytes]]:
        """Yield (mode, name, id) of a tree. Raise Missing."""
        kind, content = self.read(tree)
        if kind != b"tree":
            raise Missing("it is not a tree")
        at = 0
        while at < len(content):
            end = content.index(b"\0", at)
            mode, _, name = content[at:end].partition(b" ")
            yield int(mode, 8), name, content[end + 1 : end + 1 + len(tree)]
            at = end + 1 + len(tree)

    def _loose(self, sha: bytes) -> tuple[bytes, bytes]:
        name = sha.hex().encode()
        data = read_whole(self._files, b".git/objects/" + name[:2] + b"/" + name[2:], MAX_OBJECT)
        self._work.take(READ + len(data))
        whole = zlib.decompressobj().decompress(data, MAX_OBJECT)
        self._work.take(len(whole))
        head, _, content = whole.partition(b"\0")
        return head.split(b" ")[0], content

    def _packed(self, sha: bytes, depth: int) -> tuple[bytes, bytes]:
        for index, pack, count in self._all_packs():
            if (at := _position(index, count, sha)) is not None:
                return self._at(pack, at, depth, len(sha))
        raise Missing(f"{sha.hex()} is not here")

    def _all_packs(self):
        if self._packs is None:
            self._packs = []
            try:
                listed = list(self._files.entries(b".git/objects/pack"))
                names = [name for name, found in listed if stat.S_ISREG(found.st_mode) and name.endswith(b".idx")]
                for name in names[:MAX_PACKS]:
                    self._open(b".git/objects/pack/" + name[:-4])
            except OSError as error:
                raise Missing("its packs cannot be read") from error
        return self._packs

    def _open(self, path: bytes):
        index, pack = (_Counted(self._files.open(path + end), self._work) for end in (b".idx", b".pack"))
        head = index.pread(_TABLE, 0)
        if len(head) == _TABLE and head[:8] == b"\xfftOc\0\0\0\2":
            self._packs.append((index, pack, struct.unpack(">I", head[-4:])[0]))

    def _at(self, pack, at: int, depth: int, name_bytes: int) -> tuple[bytes, bytes]:
        if depth > MAX_DELTAS:
            raise Missing("its deltas are nested too deep")
        head = pack.pread(64, at)
        kind, size, used = _head(head)
        if size > MAX_OBJECT:
            raise Missing("it is too large")
        self._work.take(size)
        if kind in KINDS:
            return KINDS[kind], _inflate_at(pack, at + used, size)
        if kind == OFFSET_DELTA:
            back, used = _back(head, used)
            base_kind, base = self._at(pack, at - back, depth + 1, name_bytes)
        elif kind == REFERENCE_DELTA:
            base_kind, base = self.read(head[used : used + name_bytes], depth + 1)
            used += name_bytes
        else:
            raise Missing("it has a kind that is not read here")
        self._work.take(STEP * size)
        found = _patched(base, _inflate_at(pack, at + used, size))
        self._work.take(len(found))
        return base_kind, found


class _Counted:
    """A file whose reads are counted."""

    def __init__(self, file, work: Work):
        self._file, self._work = file, work

    def pread(self, length: int, offset: int) -> bytes:
        self._work.take(READ)
        data = self._file.pread(length, offset)
        self._work.take(len(data))
        return data


def _inflate_at(pack, at: int, size: int) -> bytes:
    inflate, found, step = zlib.decompressobj(), b"", 1 << 16
    try:
        while len(found) < size and not inflate.eof and (piece := pack.pread(step, at)):
            found += inflate.decompress(piece, size - len(found))
            at += len(piece)
    except zlib.error as error:
        raise Missing("it is damaged") from error
    if len(found) != size:
        raise Missing("it is cut short")
    return found


def _position(index, count: int, sha: bytes) -> int | None:
    """Return the offset of an object in the pack, from the pack's index (version 2)."""
    fan = struct.unpack(">2I", index.pread(8, 8 + 4 * (sha[0] - 1))) if sha[0] else (0, *_number(index, 8))
    low, high = fan
    size = len(sha)
    while low < high:
        middle = (low + high) // 2
        found = index.pread(size, _TABLE + size * middle)
        if found == sha:
            (at,) = _number(index, _TABLE + (size + 4) * count + 4 * middle)
            if at & 0x80000000:
                place = _TABLE + (size + 8) * count + 8 * (at & 0x7FFFFFFF)
                return struct.unpack(">Q", index.pread(8, place))[0]
            return at
        low, high = (middle + 1, high) if found < sha else (low, middle)
    return None


def _number(index, at: int) -> tuple[int]:
    return struct.unpack(">I", index.pread(4, at))


def _head(data: bytes) -> tuple[int, int, int]:
    """Return (kind, size, bytes used) of a packed object's header."""
    kind, size, shift, used = (data[0] >> 4) & 7, data[0] & 15, 4, 1
    while data[used - 1] & 0x80:
        size |= (data[used] & 0x7F) << shift
        shift, used = shift + 7, used + 1
    return kind, size, used


def _back(data: bytes, at: int) -> tuple[int, int]:
    value = data[at] & 0x7F
    while data[at] & 0x80:
        at += 1
        value = ((value + 1) << 7) | (data[at] & 0x7F)
    return value, at + 1


def _patched(base: bytes, delta: bytes) -> bytes:
    """Apply git's delta to its base. Raise Missing for one that git would not apply either."""
    size_of_base, at = _varint(delta, 0)
    size, at = _varint(delta, at)
    if size > MAX_OBJECT:
        raise Missing("it is too large")
    found = bytearray()
    while at < len(delta):
        code, at = delta[at], at + 1
        if code & 0x80:
            start, length, at = _copied(delta, code, at)
            piece = base[start : start + length]
        else:
            length = code
            piece = delta[at : at + length]
            at += length
        if not length or len(piece) != length or len(found) + length > size:  # 0 is reserved
            raise Missing("it is damaged")
        found += piece
    if len(found) != size or len(base) != size_of_base:
        raise Missing("it is damaged")
    return bytes(found)


def _copied(delta: bytes, code: int, at: int) -> tuple[int, int, int]:
    """Return (start, length, where the next step begins) of a step that copies from the base."""
    start = length = 0
    for bit in range(7):
        if code & (1 << bit):
            value, at = delta[at], at + 1
            if bit < 4:
                start |= value << 8 * bit
            else:
                length |= value << 8 * (bit - 4)
    return start, length or 0x10000, at


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while shift < 64:
        value |= (data[at] & 0x7F) << shift
        shift, at = shift + 7, at + 1
        if not data[at - 1] & 0x80:
            return value, at
    raise Missing("it is damaged")
