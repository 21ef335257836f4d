"""TLS over a connection whose first bytes were read already, as a stream in the place of asyncio's own.

asyncio begins TLS on a transport only if nothing of it was read, and copies each byte more often. One task reads, and
one writes.
"""

import asyncio
import contextlib
import ssl

from .relay import DISCONNECTED, READ_BYTES, Peer

MAX_LINE_BYTES = 256 * 1024
RECORD_BYTES = 16 * 1024  # at most what one read of a record returns; for more, memory would be taken in vain


class TlsStream:
    """Reads and writes what is within TLS: an asyncio.StreamReader and StreamWriter, as far as they are used here."""

    def __init__(self, outer: Peer, context: ssl.SSLContext, *, server_name: str | None = None, first: bytes = b""):
        """Be the client of the host `server_name`, or else the server of a program whose hello begins with `first`."""
        self.outer = outer
        self._received, self._sent = ssl.MemoryBIO(), ssl.MemoryBIO()
        is_server = server_name is None
        self._tls = context.wrap_bio(self._received, self._sent, server_side=is_server, server_hostname=server_name)
        self._received.write(first)
        self._plain = bytearray()  # read, and not taken yet
        self._is_over = self._is_closing = False

    async def handshake(self):
        """Raise ssl.SSLError for a peer that refuses, or is refused; ConnectionError for one that goes away."""
        while True:
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                self._flush()
                await self._fill()
                continue
            except ssl.SSLEOFError:
                raise ConnectionResetError("the peer ended TLS") from None
            except ssl.SSLError:
                self._flush()  # the alert
                raise
            return self._flush()

    # As a reader

    async def read(self, size: int) -> bytes:
        """Return at most `size` bytes, b"" at the end."""
        if not self._plain:
            return await self._more(size)
        taken = bytes(self._plain[:size])
        del self._plain[:size]
        return taken

    async def readuntil(self, separator: bytes) -> bytes:
        """Return the bytes up to the separator, and with it. Raise as that of asyncio does."""
        while (at := self._plain.find(separator)) < 0:
            if len(self._plain) > MAX_LINE_BYTES:
                raise asyncio.LimitOverrunError("no separator", len(self._plain))
            data = await self._more(READ_BYTES)
            if not data:
                raise asyncio.IncompleteReadError(bytes(self._plain), None)
            self._plain += data
        return await self.read(at + len(separator))

    async def _more(self, size: int) -> bytes:
        """Return what the next records hold, as far as they are here, or wait for one."""
        pieces, left = [], size
        while left and not self._is_over:
            try:
                data = self._tls.read(min(left, RECORD_BYTES))
            except ssl.SSLWantReadError:
                self._flush()
                if pieces:
                    break
                await self._fill()
                continue
            except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
                data = b""
            except ssl.SSLError as error:
                raise ConnectionResetError(f"broken TLS ({error.reason or 'no reason'})") from None
            if data:
                pieces.append(data)
                left -= len(data)
            else:
                self._is_over = True
        return b"".join(pieces)

    async def _fill(self):
        if data := await self.outer.reader.read(READ_BYTES):
            self._received.write(data)
        else:
            self._received.write_eof()

    # As a writer

    def write(self, data: bytes):
        self.writelines((data,))

    def writelines(self, parts):
        if not self._is_closing:
            for part in filter(None, parts):
                self._tls.write(part)
            self._flush()

    async def drain(self):
        await self.outer.writer.drain()

    def can_write_eof(self) -> bool:
        return False

    def is_closing(self) -> bool:
        return self._is_closing

    def close(self):
        """Send the end of TLS; the connection below stays open."""
        if not self._is_closing:
            self._is_closing = True
            with contextlib.suppress(ssl.SSLError, *DISCONNECTED):
                self._tls.unwrap()
            self._flush()

    async def wait_closed(self):
        with contextlib.suppress(*DISCONNECTED):
            await self.drain()

    def _flush(self):
        if data := self._sent.read():
            self.outer.writer.write(data)


async def secured(outer: Peer, context: ssl.SSLContext, **how) -> Peer:
    """Begin TLS on a connection; return what is within it. Raise as `TlsStream.handshake`."""
    stream = TlsStream(outer, context, **how)
    await stream.handshake()
    return Peer(stream, stream)
