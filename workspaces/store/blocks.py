"""Blocks: blobs compressed together, with a table of their ids, so that packs are self-describing."""

from __future__ import annotations

import struct
import threading
from typing import TYPE_CHECKING, NamedTuple

from blake3 import blake3

from .errors import Damaged

if TYPE_CHECKING:
    from collections.abc import Iterator

    import zstandard

DATA, META = 1, 2
PLAIN, ZSTD = 0, 1
VERSION = 1
LEVEL = 1
HEADER = struct.Struct("<2sBBBxxxIII16s")  # "HB", version, kind, codec, blobs, raw and stored length, checksum
ITEM = struct.Struct("<32sI")  # content id, length
MAX_RAW = 1 << 26  # bytes; no writer exceeds it, and it bounds the allocation for a damaged header

_local = threading.local()


class BlockInfo(NamedTuple):
    """A decoded block header; `raw` and `stored` are lengths in bytes."""

    kind: int
    codec: int
    count: int
    raw: int
    stored: int
    checksum: bytes

    @property
    def length(self) -> int:
        return HEADER.size + self.count * ITEM.size + self.stored


def encode_block(kind: int, blobs: list[tuple[bytes, bytes]]) -> bytes:
    """Encode (content id, bytes) pairs as a block. Thread-safe."""
    raw = b"".join([data for _, data in blobs])
    codec, payload = ZSTD, _compressor().compress(raw)
    if len(payload) >= len(raw):
        codec, payload = PLAIN, raw
    table = b"".join([ITEM.pack(content, len(data)) for content, data in blobs])
    head = HEADER.pack(b"HB", VERSION, kind, codec, len(blobs), len(raw), len(payload), bytes(16))
    checksum = blake3(head).update(table).update(payload).digest(16)
    return head[:-16] + checksum + table + payload


def read_header(data: bytes | memoryview, where: str) -> BlockInfo:
    """Decode a block header. Raise Damaged if it is invalid."""
    if len(data) < HEADER.size:
        raise Damaged(f"{where} is truncated")
    magic, version, kind, codec, count, raw, stored, checksum = HEADER.unpack_from(data)
    if magic != b"HB" or raw > MAX_RAW or stored > raw or count > MAX_RAW // ITEM.size:
        raise Damaged(f"{where} is not a block")
    if version != VERSION or codec not in (PLAIN, ZSTD):
        raise Damaged(f"{where} has version {version}, codec {codec}; this program supports version {VERSION}")
    return BlockInfo(kind, codec, count, raw, stored, checksum)


def check_block(data: bytes | memoryview, where: str) -> BlockInfo:
    """Verify a block's length and checksum without decompressing it. Raise Damaged on a mismatch."""
    info = read_header(data, where)
    view = memoryview(data)
    if len(view) != info.length:
        raise Damaged(f"{where} is truncated")
    if blake3(view[: HEADER.size - 16]).update(bytes(16)).update(view[HEADER.size :]).digest(16) != info.checksum:
        raise Damaged(f"{where} does not match its checksum")
    return info


def table(data: bytes | memoryview, info: BlockInfo) -> Iterator[tuple[bytes, int, int]]:
    """Yield (content id, offset in the raw bytes, length) of each blob."""
    offset = 0
    for content, length in ITEM.iter_unpack(data[HEADER.size : HEADER.size + info.count * ITEM.size]):
        yield content, offset, length
        offset += length


def payload(data: bytes | memoryview, info: BlockInfo, where: str) -> bytes:
    """Decompress a block whose checksum was verified. Raise Damaged on failure."""
    stored = memoryview(data)[HEADER.size + info.count * ITEM.size :]
    if info.codec == PLAIN:
        return bytes(stored)
    import zstandard  # here and below: a snapshot without changes neither compresses nor reads a block

    try:
        raw = _decompressor().decompress(stored, max_output_size=info.raw)
    except zstandard.ZstdError as error:
        raise Damaged(f"{where} cannot be decompressed: {error}") from error
    if len(raw) != info.raw:
        raise Damaged(f"{where} has another length than recorded after decompression")
    return raw


def _compressor() -> zstandard.ZstdCompressor:
    # A compressor is not thread-safe.
    if not hasattr(_local, "compressor"):
        import zstandard

        _local.compressor = zstandard.ZstdCompressor(level=LEVEL, write_checksum=False)
    return _local.compressor


def _decompressor() -> zstandard.ZstdDecompressor:
    if not hasattr(_local, "decompressor"):
        import zstandard

        _local.decompressor = zstandard.ZstdDecompressor()
    return _local.decompressor
