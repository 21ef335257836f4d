"""TLS over a connection whose first bytes were read already, as a stream in the place of asyncio's own.

asyncio begins TLS on a transport only if nothing of it was read, and copies each byte more often. What a host sends
goes to TLS as it arrives, without a StreamReader in between. One task reads, and one writes.
"""

import asyncio
import contextlib
import ssl
import threading

from .relay import DISCONNECTED, READ_BYTES, Peer

MAX_LINE_BYTES = 256 * 1024
RECORD_BYTES = 16 * 1024  # at most what a record holds
SENT_BYTES = 64 * 1024  # what is written at once

_thread = threading.local()


def _shared(name: str) -> memoryview:
    """Return a buffer of READ_BYTES that each connection of the thread's loop uses in turn, never across an await.

    Memory of that size that is taken anew for each piece costs more, in pages that the kernel gives, than its TLS.
    """
    if not hasattr(_thread, name):
        setattr(_thread, name, memoryview(bytearray(READ_BYTES)))
    return getattr(_thread, name)


class Inflow(asyncio.BufferedProtocol):
    """Gives TLS what arrives on a connection of which nothing was read; its StreamReader hears only of the end."""

    def __init__(self, outer: Peer, received: ssl.MemoryBIO):
        self._received, self._transport = received, outer.writer.transport
        self._streams = self._transport.get_protocol()  # which the StreamWriter asks whether it may go on
        self._came = asyncio.Event()
        self._is_over = self._is_paused = False
        self._error: Exception | None = None
        self._transport.set_protocol(self)

    async def wait(self):
        """Wait until more has arrived, or the end. Raise as a StreamReader for a connection that broke."""
        self._came.clear()
        if self._is_paused and not self._is_over:
            self._is_paused = False
            self._transport.resume_reading()
        if not self._is_over:
            await self._came.wait()
        if self._error is not None:
            raise self._error
        if self._is_over:
            self._received.write_eof()

    def get_buffer(self, sizehint: int) -> memoryview:
        return _shared("received")

    def buffer_updated(self, nbytes: int):
        self._received.write(_shared("received")[:nbytes])
        self._came.set()
        if self._received.pending >= READ_BYTES and not self._is_paused:
            self._is_paused = True
            self._transport.pause_reading()

    def eof_received(self):
        self._end()
        return self._streams.eof_received()

    def connection_lost(self, exc: Exception | None):
        self._error = exc
        self._end()
        self._streams.connection_lost(exc)

    def _end(self):
        self._is_over = True
        self._came.set()

    def pause_writing(self):
        self._streams.pause_writing()

    def resume_writing(self):
        self._streams.resume_writing()


class TlsStream:
    """Reads and writes what is within TLS: an asyncio.StreamReader and StreamWriter, as far as they are used here."""

    def __init__(
        self,
        outer: Peer,
        context: ssl.SSLContext,
        *,
        server_name: str | None = None,
        session: ssl.SSLSession | None = None,
        first: bytes = b"",
    ):
        """Be the client of the host `server_name`, or else the server of a program whose hello begins with `first`.

        `session`: one with the host, of the same context, that the handshake goes on with.
        """
        self.outer = outer
        self._received, self._sent = ssl.MemoryBIO(), ssl.MemoryBIO()
        is_server = server_name is None
        self.tls = context.wrap_bio(
            self._received, self._sent, server_side=is_server, server_hostname=server_name, session=session
        )
        self._received.write(first)
        # A host says nothing before our hello, so nothing of it was read.
        self._inflow = None if is_server else Inflow(outer, self._received)
        self._plain = bytearray()  # read, and not taken yet
        self._is_over = self._is_closing = False

    async def handshake(self):
        """Raise ssl.SSLError for a peer that refuses, or is refused; ConnectionError for one that goes away."""
        while True:
            try:
                self.tls.do_handshake()
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
        plain, got = _shared("plain")[:size], 0
        while got < len(plain) and not self._is_over:
            try:
                count = self.tls.read(len(plain) - got, plain[got:])
            except ssl.SSLWantReadError:
                self._flush()
                if got:
                    break
                await self._fill()
                continue
            except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
                count = 0
            except ssl.SSLError as error:
                raise ConnectionResetError(f"broken TLS ({error.reason or 'no reason'})") from None
            got += count
            self._is_over = not count
        return bytes(plain[:got])

    async def _fill(self):
        if self._inflow is not None:
            await self._inflow.wait()
        elif data := await self.outer.reader.read(READ_BYTES):
            self._received.write(data)
        else:
            self._received.write_eof()

    # As a writer

    def write(self, data: bytes):
        self.writelines((data,))

    def writelines(self, parts):
        if not self._is_closing:
            if sum(map(len, parts)) <= RECORD_BYTES:
                parts = (b"".join(parts),)  # one record takes several
            for part in filter(None, parts):
                self.tls.write(part)
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
                self.tls.unwrap()
            self._flush()

    async def wait_closed(self):
        with contextlib.suppress(*DISCONNECTED):
            await self.drain()

    def _flush(self):
        while data := self._sent.read(SENT_BYTES):
            self.outer.writer.write(data)


async def secured(outer: Peer, context: ssl.SSLContext, **how) -> Peer:
    """Begin TLS on a connection; return what is within it. Raise as `TlsStream.handshake`."""
    stream = TlsStream(outer, context, **how)
    await stream.handshake()
    return Peer(stream, stream)
