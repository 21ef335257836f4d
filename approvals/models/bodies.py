"""Long texts in rows: compressed, and read as the bytes that they are."""

import zlib


def pack(text: bytes) -> bytes:
    return zlib.compress(text)


def unpack(body: bytes) -> bytes:
    return zlib.decompress(bytes(body))
