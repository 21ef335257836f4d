"""The proxy's own answers to a program: errors as plain text."""

import asyncio
import contextlib

from .relay import DISCONNECTED, Peer

LINGER_TIMEOUT = 1.0
READ_BYTES = 64 * 1024
REASON_PHRASES = {
    400: "Bad Request",
    403: "Forbidden",
    407: "Proxy Authentication Required",
    404: "Not Found",
    408: "Request Timeout",
    413: "Content Too Large",
    421: "Misdirected Request",
    502: "Bad Gateway",
    503: "Service Unavailable",
}


class Refused(Exception):
    """An error response to the program: HTTP status and message."""

    def __init__(self, status: int, message: str):
        super().__init__(message)
        self.status = status


async def send_error(program: Peer, status: int, message: str):
    body = (message + "\n").encode()
    fields = f"Content-Type: text/plain; charset=utf-8\r\nContent-Length: {len(body)}\r\nConnection: close"
    fields += '\r\nProxy-Authenticate: Basic realm="Handrail"' if status == 407 else ""
    program.writer.write(f"HTTP/1.1 {status} {REASON_PHRASES[status]}\r\n{fields}\r\n\r\n".encode() + body)
    await linger(program)


async def linger(program: Peer):
    """Half-close and drain before closing: a close with unread bytes resets the connection and loses the response."""
    with contextlib.suppress(*DISCONNECTED):
        await program.writer.drain()
        program.end()
        if not program.writer.can_write_eof():
            return  # TLS, whose end is written when it is closed
        async with asyncio.timeout(LINGER_TIMEOUT):
            while await program.reader.read(READ_BYTES):
                pass
