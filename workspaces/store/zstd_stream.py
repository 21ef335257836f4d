"""Read a zstd stream as a file, and know when it was cut off.

The reader of the `zstandard` package returns the end of the file where the data ends inside a frame, so a truncated
archive would look like a shorter one.
"""

import io
from typing import BinaryIO

import zstandard

_READ_BYTES = 1024  # of compressed data at once: it may become 128 KiB for each 4 bytes
_LARGEST_WINDOW = 1 << 27  # bytes


class ZstdReader(io.RawIOBase):
    """The plain bytes of one or more frames. Reading raises EOFError where the data ends inside a frame."""

    def __init__(self, compressed: BinaryIO):
        self._compressed = compressed
        self._decompressor = zstandard.ZstdDecompressor(max_window_size=_LARGEST_WINDOW)
        self._frame = None
        self._waiting = b""  # compressed bytes after the end of a frame
        self._plain = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer) -> int:
        while not self._plain:
            data = self._waiting or self._compressed.read(_READ_BYTES)
            if not data and self._frame is None:
                return 0
            if not data:
                raise EOFError("the compressed data ends too early")
            self._decompress(data)
        size = min(len(buffer), len(self._plain))
        buffer[:size], self._plain = self._plain[:size], self._plain[size:]
        return size

    def _decompress(self, data: bytes) -> None:
        if self._frame is None:
            self._frame = self._decompressor.decompressobj()
        self._plain = memoryview(self._frame.decompress(data))
        self._waiting = self._frame.unused_data
        if self._frame.eof:
            self._frame = None
