"""Read the server name (SNI) of a TLS ClientHello, with size limits. Nothing is decrypted or answered."""

import asyncio
import struct

from .attempts import Block, BlockCode

HANDSHAKE, CLIENT_HELLO = 22, 1
SERVER_NAME, ENCRYPTED_HELLO = 0, 0xFE0D
MAX_RECORD_BYTES = 16384
MAX_HELLO_BYTES = 32768
# A fatal `unrecognized_name` alert, so that the client reports more than "connection closed".
UNRECOGNIZED_NAME_ALERT = bytes((21, 3, 3, 0, 2, 2, 112))


class BadHello(Exception):
    """The start of the connection is refused; the message can be shown."""

    def __init__(self, message: str, code: BlockCode = BlockCode.UNVERIFIABLE):
        super().__init__(message)
        self.block = Block(code, message)


async def read_hello(reader: asyncio.StreamReader, first: bytes) -> tuple[bytes, str]:
    """Return the ClientHello records as received, and the server name. `first` is the byte already read.

    Raise BadHello if the bytes are not exactly one ClientHello with one server name.
    """
    raw, hello = bytearray(), bytearray()
    while len(hello) < 4 or len(hello) < 4 + int.from_bytes(hello[1:4]):
        header = (b"" if raw else first) + await reader.readexactly(5 if raw else 4)
        kind, major, _minor, length = struct.unpack(">BBBH", header)
        if kind != HANDSHAKE or major != 3 or not 0 < length <= MAX_RECORD_BYTES:
            raise BadHello("it does not begin with a TLS hello")
        body = await reader.readexactly(length)
        raw += header + body
        hello += body
        if hello[0] != CLIENT_HELLO or len(raw) > MAX_HELLO_BYTES:
            raise BadHello("it does not begin with a TLS hello")
    if len(hello) != 4 + int.from_bytes(hello[1:4]):
        raise BadHello("data follows the TLS hello before it is answered")
    return bytes(raw), name_in(bytes(hello[4:]))


class _Cursor:
    def __init__(self, data: bytes):
        self.data, self.at = data, 0

    def take(self, size: int) -> bytes:
        part = self.data[self.at : self.at + size]
        if len(part) != size:
            raise BadHello("the TLS hello is cut short")
        self.at += size
        return part

    def vector(self, size: int) -> bytes:
        """Read a vector whose length is in the `size` bytes before it."""
        return self.take(int.from_bytes(self.take(size)))

    @property
    def left(self) -> int:
        return len(self.data) - self.at


def name_in(body: bytes) -> str:
    """Return the server name in the body of a ClientHello. Raise BadHello if it is missing, ambiguous or encrypted."""
    hello = _Cursor(body)
    hello.take(2 + 32)  # version, random
    hello.vector(1)  # session
    hello.vector(2)  # cipher suites
    hello.vector(1)  # compression
    extensions = _Cursor(hello.vector(2) if hello.left else b"")
    if hello.left:
        raise BadHello("the TLS hello has trailing data")
    found: dict[int, bytes] = {}
    while extensions.left:
        kind = int.from_bytes(extensions.take(2))
        if kind in found:
            raise BadHello("the TLS hello repeats an extension")
        found[kind] = extensions.vector(2)
    if ENCRYPTED_HELLO in found:
        raise BadHello("the TLS hello hides its name (ECH), so it cannot be compared")
    if SERVER_NAME not in found:
        raise BadHello("the TLS hello names no host (no SNI), so it cannot be compared")
    names = _Cursor(_Cursor(found[SERVER_NAME]).vector(2))
    kind, name = names.take(1), names.vector(2)
    if kind != b"\0" or names.left:
        raise BadHello("the TLS hello names more than one host")
    try:
        return name.decode("ascii")
    except UnicodeDecodeError:
        raise BadHello("the TLS hello names no valid host") from None
