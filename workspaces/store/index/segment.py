"""Index segments: immutable sorted tables of object places. They can be rebuilt from the packs."""

import itertools
import mmap
import os
import struct
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from blake3 import blake3

from ..errors import Damaged

VERSION = 1
HEADER = struct.Struct("<2sBBI32s")  # "HI", version, bits of the fan-out, count, checksum of what follows
PLACE = struct.Struct("<IQIII")
_U32 = struct.Struct("<I")


class Place(NamedTuple):
    """The place of one object: its pack, its block in the pack, and its range of the block's raw bytes."""

    pack: int
    block: int
    block_length: int
    offset: int
    length: int


def encode_segment(places: dict[bytes, Place]) -> bytes:
    """Encode a segment: fan-out table, sorted ids, and their places in the same order."""
    return encode_rows([content + PLACE.pack(*place) for content, place in places.items()])


def encode_rows(rows: list[bytes]) -> bytes:
    """Encode a segment of rows, each an id and its packed place, no id twice. They are sorted in place."""
    rows.sort()
    bits = max(0, min(20, len(rows).bit_length() - 4))
    counts = [0] * (1 << bits)
    shift = 32 - bits
    for row in rows:
        counts[int.from_bytes(row[:4], "big") >> shift] += 1
    body = b"".join(
        (
            struct.pack(f"<{len(counts)}I", *itertools.accumulate(counts)),
            b"".join([row[:32] for row in rows]),
            b"".join([row[32:] for row in rows]),
        )
    )
    return HEADER.pack(b"HI", VERSION, bits, len(rows), blake3(body).digest()) + body


class Segment:
    """One memory-mapped segment; thread-safe."""

    def __init__(self, path: Path):
        self.path = path
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            size = os.fstat(fd).st_size
            self._map = mmap.mmap(fd, size, prot=mmap.PROT_READ) if size else b""
        finally:
            os.close(fd)
        if size < HEADER.size:
            raise Damaged(f"index segment {path.name} is truncated")
        magic, version, bits, self.count, self._checksum = HEADER.unpack_from(self._map)
        if magic != b"HI" or version != VERSION:
            raise Damaged(f"index segment {path.name} has version {version}; this program supports version {VERSION}")
        self._shift = 32 - bits
        self._ids = HEADER.size + (4 << bits)
        self._places = self._ids + 32 * self.count
        if bits > 20 or size != self._places + PLACE.size * self.count:
            raise Damaged(f"index segment {path.name} is truncated")

    def find(self, content: bytes) -> Place | None:
        bucket = int.from_bytes(content[:4], "big") >> self._shift
        fanout = HEADER.size + 4 * bucket
        (end,) = _U32.unpack_from(self._map, fanout)
        start = _U32.unpack_from(self._map, fanout - 4)[0] if bucket else 0
        at = self._ids + 32 * start
        end = self._ids + 32 * end
        while (at := self._map.find(content, at, end)) >= 0:
            index, within = divmod(at - self._ids, 32)
            if not within:
                return Place(*PLACE.unpack_from(self._map, self._places + PLACE.size * index))
            at += 1
        return None

    def ids(self) -> Iterator[bytes]:
        for (content,) in struct.iter_unpack("32s", self._map[self._ids : self._places]):
            yield content

    def items(self) -> Iterator[tuple[bytes, Place]]:
        places = PLACE.iter_unpack(self._map[self._places :])
        return zip(self.ids(), itertools.starmap(Place, places), strict=True)

    def check(self) -> None:
        """Verify the checksum. Raise Damaged on a mismatch."""
        if blake3(memoryview(self._map)[HEADER.size :]).digest() != self._checksum:
            raise Damaged(f"index segment {self.path.name} does not match its checksum")


def merged(segments: Iterable[Segment]) -> dict[bytes, Place]:
    """Return the places of all objects of several segments, by id."""
    places: dict[bytes, Place] = {}
    for segment in segments:
        places.update(segment.items())
    return places
