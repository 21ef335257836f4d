"""Reach a host by a company's proxy: a tunnel by CONNECT, or the proxy itself for one plain request."""

import asyncio
import ssl
from functools import lru_cache

from dashboard.net.upstream import ProxyAddress, ProxyRefused, Upstream, check_answer, connect_request

from .answers import Refused
from .attempts import Attempt
from .relay import Peer

READ_BUFFER_BYTES = 256 * 1024
MAX_HEAD_LINES = 100
CONNECT_TIMEOUT = 15.0


async def reached(proxy: ProxyAddress, upstream: Upstream, attempt: Attempt, *, plain: bool) -> Peer:
    """Return what `opened` returns for an attempt. Raise Refused in words."""
    try:
        async with asyncio.timeout(CONNECT_TIMEOUT):
            return await opened(proxy, upstream, attempt.host, attempt.port, plain=plain)
    except (OSError, EOFError, TimeoutError) as error:
        raise Refused(502, in_words(proxy, error)) from None


async def opened(proxy: ProxyAddress, upstream: Upstream, host: str, port: int, *, plain: bool) -> Peer:
    """Return a connection whose other end is the host; with `plain` and port 80 the proxy, which is to be asked for it.

    Raise OSError or EOFError, as ProxyRefused with the proxy's own words.
    """
    context = _tls(upstream) if proxy.scheme == "https" else None
    name = proxy.host if context else None
    opening = asyncio.open_connection(
        proxy.host, proxy.port, limit=READ_BUFFER_BYTES, ssl=context, server_hostname=name
    )
    peer = Peer(*await opening)
    try:
        if plain:
            peer.proxy = proxy
            return peer
        peer.writer.write(connect_request(proxy, host, port))
        check_answer(proxy, await _head(peer.reader))
        return peer
    except BaseException:
        peer.writer.close()
        raise


async def _head(reader: asyncio.StreamReader) -> bytes:
    lines = [await reader.readline()]
    while lines[-1] not in (b"\r\n", b"\n", b"") and len(lines) < MAX_HEAD_LINES:
        lines.append(await reader.readline())
    return b"".join(lines)


def in_words(proxy: ProxyAddress, error: Exception) -> str:
    """Return why the host is not reached, without credentials."""
    if isinstance(error, ProxyRefused):
        return str(error).rstrip(".").replace("The proxy", "the company's proxy", 1)
    if isinstance(error, ssl.SSLError):
        return f"the certificate of the company's proxy {proxy.shown} is not one that is trusted here"
    return f"the company's proxy {proxy.shown} does not answer"


@lru_cache(maxsize=2)
def _tls(of: Upstream) -> ssl.SSLContext:
    return of.tls()
