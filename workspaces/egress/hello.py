"""The name in a TLS ClientHello, read strictly and within bounds. Nothing is decrypted, nothing is answered."""

import asyncio
import struct

HANDSHAKE, CLIENT_HELLO = 22, 1
SERVER_NAME, ENCRYPTED_HELLO = 0, 0xFE0D
RECORD_AT_MOST = 16384
HELLO_AT_MOST = 32768
# A fatal alert `unrecognized_name`, so that the program that asked says more than "connection closed".
ALERT = bytes((21, 3, 3, 0, 2, 2, 112))


class BadHello(Exception):
    """Why this beginning of a connection is refused, in words."""


async def read_hello(reader: asyncio.StreamReader, first: bytes) -> tuple[bytes, str]:
    """The bytes of the ClientHello as they came, and the name in it. `first` is the byte that was read already."""
    raw, hello = bytearray(), bytearray()
    while len(hello) < 4 or len(hello) < 4 + int.from_bytes(hello[1:4]):
        header = (b"" if raw else first) + await reader.readexactly(5 if raw else 4)
        kind, major, _minor, length = struct.unpack(">BBBH", header)
        if kind != HANDSHAKE or major != 3 or not 0 < length <= RECORD_AT_MOST:
            raise BadHello("it does not begin with a TLS hello")
        body = await reader.readexactly(length)
        raw += header + body
        hello += body
        if hello[0] != CLIENT_HELLO or len(raw) > HELLO_AT_MOST:
            raise BadHello("it does not begin with a TLS hello")
    if len(hello) != 4 + int.from_bytes(hello[1:4]):
        raise BadHello("there is more than a TLS hello at its beginning")
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
        """A field with its length, in `size` bytes, before it."""
        return self.take(int.from_bytes(self.take(size)))

    @property
    def left(self) -> int:
        return len(self.data) - self.at


def name_in(body: bytes) -> str:
    """The server name in the body of a ClientHello. BadHello when there is none, or when another may be hidden."""
    hello = _Cursor(body)
    hello.take(2 + 32)  # version, random
    hello.vector(1)  # session
    hello.vector(2)  # cipher suites
    hello.vector(1)  # compression
    extensions = _Cursor(hello.vector(2) if hello.left else b"")
    if hello.left:
        raise BadHello("there is more in the TLS hello than belongs there")
    found: dict[int, bytes] = {}
    while extensions.left:
        kind = int.from_bytes(extensions.take(2))
        if kind in found:
            raise BadHello("the TLS hello says something twice")
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
        raise BadHello("the name in the TLS hello is none") from None
