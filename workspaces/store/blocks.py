"""Blocks: blobs compressed together, with a table of their ids, so that packs are self-describing.

Of an encrypted block the header can be read, and its checksum verified, without the key.
"""

from __future__ import annotations

import os
import struct
import threading
from typing import TYPE_CHECKING, NamedTuple

from blake3 import blake3

from . import sealing
from .errors import Damaged

if TYPE_CHECKING:
    from collections.abc import Iterator

    import zstandard

    from .sealing import Key, Keys

DATA, META = 1, 2
PLAIN, ZSTD = 0, 1
SEALED = 2  # added to the codec of an encrypted block
VERSION = 1
LEVEL = 1
HEADER = struct.Struct("<2sBBBxxxIII16s")  # "HB", version, kind, codec, blobs, raw and stored length, checksum
ITEM = struct.Struct("<32sI")  # content id, length
SEALED_TABLE = sealing.HEAD_BYTES + sealing.TAG_BYTES  # what a table is longer by: id of the key, nonce, tag
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
    def is_sealed(self) -> bool:
        return bool(self.codec & SEALED)

    @property
    def table_length(self) -> int:
        return self.count * ITEM.size + (SEALED_TABLE if self.is_sealed else 0)

    @property
    def length(self) -> int:
        return HEADER.size + self.table_length + self.stored


def encode_block(kind: int, blobs: list[tuple[bytes, bytes]], key: Key | None = None) -> bytes:
    """Encode (content id, bytes) pairs as a block, encrypted if there is a key. Thread-safe."""
    raw = b"".join([data for _, data in blobs])
    codec, payload = ZSTD, _compressor().compress(raw)
    if len(payload) >= len(raw):
        codec, payload = PLAIN, raw
    table = b"".join([ITEM.pack(content, len(data)) for content, data in blobs])
    if key is None:
        return _with_checksum(
            HEADER.pack(b"HB", VERSION, kind, codec, len(blobs), len(raw), len(payload), bytes(16)), table, payload
        )
    return _sealed(key, kind, codec, len(blobs), len(raw), table, payload)


def _sealed(key: Key, kind: int, codec: int, count: int, raw: int, table: bytes, payload: bytes) -> bytes:
    stored = len(payload) + sealing.TAG_BYTES
    head = HEADER.pack(b"HB", VERSION, kind, codec | SEALED, count, raw, stored, bytes(16))
    nonce = os.urandom(sealing.NONCE_BYTES)
    of_table, of_payload = _nonces(nonce)
    table = key.id + nonce + sealing.seal(key, of_table, table, head)
    return _with_checksum(head, table, sealing.seal(key, of_payload, payload, head))


def _nonces(nonce: bytes) -> tuple[bytes, bytes]:
    """Return the nonces of a block's table and of its payload, which differ in their last bit."""
    return nonce[:-1] + bytes([nonce[-1] & 0xFE]), nonce[:-1] + bytes([nonce[-1] | 1])


def _with_checksum(head: bytes, table: bytes, payload: bytes) -> bytes:
    checksum = blake3(head).update(table).update(payload).digest(16)
    return head[:-16] + checksum + table + payload


def sealed_block(key: Key, data: bytes, where: str) -> bytes:
    """Return a block encrypted that is not yet; one that is comes back as it is. Raise Damaged."""
    info = check_block(data, where)
    if info.is_sealed:
        return data
    end = HEADER.size + info.table_length
    return _sealed(key, info.kind, info.codec, info.count, info.raw, data[HEADER.size : end], data[end:])


def read_header(data: bytes | memoryview, where: str) -> BlockInfo:
    """Decode a block header. Raise Damaged if it is invalid."""
    if len(data) < HEADER.size:
        raise Damaged(f"{where} is truncated")
    magic, version, kind, codec, count, raw, stored, checksum = HEADER.unpack_from(data)
    most = raw + (sealing.TAG_BYTES if codec & SEALED else 0)
    if magic != b"HB" or raw > MAX_RAW or stored > most or count > MAX_RAW // ITEM.size:
        raise Damaged(f"{where} is not a block")
    if version != VERSION or codec & ~SEALED not in (PLAIN, ZSTD):
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


def table(data: bytes | memoryview, info: BlockInfo, keys: Keys, where: str) -> Iterator[tuple[bytes, int, int]]:
    """Yield (content id, offset in the raw bytes, length) of each blob. Raise NoKey, Damaged."""
    items = bytes(data[HEADER.size : HEADER.size + info.table_length])
    if info.is_sealed:
        key, nonce = _key_and_nonce(items, keys, where)
        items = sealing.unseal(key, _nonces(nonce)[0], items[sealing.HEAD_BYTES :], _about(data), where)
    offset = 0
    for content, length in ITEM.iter_unpack(items):
        yield content, offset, length
        offset += length


def _key_and_nonce(table: bytes, keys: Keys, where: str) -> tuple[Key, bytes]:
    key = keys.key(table[: sealing.ID_BYTES], where)
    return key, table[sealing.ID_BYTES : sealing.HEAD_BYTES]


def _about(data: bytes | memoryview) -> bytes:
    """Return what the ciphertexts of a block are bound to: its header without the checksum."""
    return bytes(data[: HEADER.size - 16]) + bytes(16)


def payload(data: bytes | memoryview, info: BlockInfo, where: str, keys: Keys) -> bytes:
    """Decrypt and decompress a block whose checksum was verified. Raise NoKey, or Damaged on failure."""
    stored = memoryview(data)[HEADER.size + info.table_length :]
    if info.is_sealed:
        key, nonce = _key_and_nonce(bytes(data[HEADER.size : HEADER.size + sealing.HEAD_BYTES]), keys, where)
        stored = sealing.unseal(key, _nonces(nonce)[1], bytes(stored), _about(data), where)
    if info.codec & ~SEALED == PLAIN:
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
