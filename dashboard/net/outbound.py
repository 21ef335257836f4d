"""The one seam for connections that Handrail itself makes to other machines: each passes the company's proxy, if any.

A client asks here for its socket, its options of aiohttp, its session of requests or its variables; a test compares the
modules that connect with those that ask. Guards (workspaces/services/outbound.py) hear by an audit event of each
connection that a proxy makes in our place, as no socket of ours shows them its address.
"""

import asyncio
import hashlib
import os
import socket
import ssl
import sys
from functools import cache, lru_cache
from pathlib import Path
from urllib.parse import urlsplit

from django.conf import settings

from dashboard.files.atomic_write import replace_file
from dashboard.net import trust
from dashboard.net.upstream import ProxyAddress, ProxyRefused, Upstream, check_answer, connect_request

BY_PROXY = "handrail.connect_by_proxy"  # the audit event: (host, port, the proxy's host, the proxy's port)
MAX_HEAD = 16 * 1024  # bytes of a proxy's answer
PORTS = {"http": 80, "https": 443, "ws": 80, "wss": 443}


def upstream() -> Upstream:
    return settings.HANDRAIL_UPSTREAM


def upstream_of(name: str) -> Upstream:
    """Return the proxy that an environment names, the installation's own for "". KeyError where this host has none."""
    return settings.HANDRAIL_UPSTREAMS[name] if name else upstream()


def on_the_way_to(
    host: str, port: int, addresses: tuple[str, ...] = (), of: Upstream | None = None
) -> ProxyAddress | None:
    """Return the proxy for a connection to the host, None if it goes straight. OSError of a guard that refuses it."""
    found = of or upstream()
    if found.proxy is None:
        return None
    if not addresses and found.asks_for_addresses:
        addresses = _addresses_of(host, port)
    proxy = found.on_the_way_to(host, port, addresses)
    if proxy is not None:
        sys.audit(BY_PROXY, host, port, proxy.host, proxy.port)
    return proxy


def _addresses_of(host: str, port: int) -> tuple[str, ...]:
    try:
        return tuple(info[4][0] for info in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
    except (OSError, UnicodeError):
        return ()  # the proxy may know it


def tls(of: Upstream | None = None) -> ssl.SSLContext:
    """Return the context for a server's certificate, with the company's authorities, or those of another proxy."""
    return _tls(of or upstream())


@lru_cache(maxsize=20)
def _tls(of: Upstream) -> ssl.SSLContext:
    return of.tls()


def trusted_file() -> str:
    """Return the path of a file with all authorities that hold here; "" where the machine's own do."""
    named = upstream().authorities
    return _trusted_file(named, os.stat(named).st_mtime_ns) if named else ""


@cache
def _trusted_file(named: str, _changed: int) -> str:
    content = trust.with_more(Path(named).read_bytes())
    file = settings.HANDRAIL_HOME / "trust" / f"{hashlib.sha256(content).hexdigest()[:16]}.pem"
    file.parent.mkdir(mode=0o755, exist_ok=True)
    if not file.exists():
        replace_file(file, content, durable=False)
    return str(file)


# A socket ------------------------------------------------------------------------------------------------------------


def connect(
    host: str, port: int, timeout: float, *, addresses: tuple[str, ...] = (), of: Upstream | None = None
) -> socket.socket:
    """Return a connected socket, without TLS of its own. `addresses`: the only ones that may be contacted straight.

    `of`: another proxy than the installation's own. Raise OSError: where none answers, ProxyRefused with the proxy's
    words.
    """
    proxy = on_the_way_to(host, port, addresses, of)
    if proxy is not None:
        return _through(proxy, host, port, timeout, of)
    error: OSError = OSError("it has no address")
    for address in addresses or (host,):
        try:
            return socket.create_connection((address, port), timeout)
        except OSError as refused:
            error = refused
    raise error


def _through(proxy: ProxyAddress, host: str, port: int, timeout: float, of: Upstream | None = None) -> socket.socket:
    sock = socket.create_connection((proxy.host, proxy.port), timeout)
    try:
        if proxy.scheme == "https":
            sock = tls(of).wrap_socket(sock, server_hostname=proxy.host)
        sock.sendall(connect_request(proxy, host, port))
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            one = sock.recv(1)  # no byte of what follows the head
            if not one or len(head) > MAX_HEAD:
                raise ProxyRefused(f"The proxy {proxy.shown} ended the connection.")
            head += one
        check_answer(proxy, head)
        return sock
    except BaseException:
        sock.close()
        raise


def wrapped(sock: socket.socket, host: str, *, of: Upstream | None = None, **options) -> socket.socket:
    """Return the socket with TLS for this host. One that is a proxy's TLS already carries it inside."""
    if isinstance(sock, ssl.SSLSocket):
        from urllib3.util.ssltransport import SSLTransport  # here: few proxies speak TLS themselves

        return SSLTransport(sock, tls(of), server_hostname=host)
    return tls(of).wrap_socket(sock, server_hostname=host, **options)


# Libraries -----------------------------------------------------------------------------------------------------------


async def aiohttp_options(url: str) -> dict:
    """Return what a request of aiohttp needs as keywords to reach this address: the proxy, and whom it trusts."""
    parts = urlsplit(url)
    port = parts.port or PORTS.get(parts.scheme, 443)
    # In a thread, as a guard may look the name up.
    proxy = await asyncio.to_thread(on_the_way_to, parts.hostname or "", port) if upstream().proxy else None
    options = {"ssl": tls()} if upstream().authorities else {}
    if proxy is None:
        return options
    # aiohttp makes Proxy-Authorization of it, in a tunnel's request and in a plain one.
    credentials = {"proxy_headers": {"Authorization": proxy.authorization}} if proxy.user else {}
    return options | {"proxy": proxy.shown} | credentials


def session():
    """Return a session of requests whose every request, redirects included, passes the proxy where one is set."""
    import requests
    from requests.adapters import HTTPAdapter

    class ByProxy(HTTPAdapter):
        def send(self, request, stream=False, timeout=None, verify=True, cert=None, proxies=None):
            parts = urlsplit(request.url)
            proxy = on_the_way_to(parts.hostname or "", parts.port or PORTS[parts.scheme])
            proxies = {parts.scheme: proxy.address} if proxy else {}
            verify = (trusted_file() or True) if verify is True else verify
            return super().send(request, stream, timeout, verify, cert, proxies)

    made = requests.Session()
    if upstream() != Upstream():  # without one, the variables of this process hold, as requests reads them
        made.trust_env = False
        made.mount("https://", ByProxy())
        made.mount("http://", ByProxy())
    return made


def post(url: str, **options):
    """Post as `requests.post` does, by a session of its own."""
    with session() as made:
        return made.post(url, **options)


def variables(host: str = "", port: int = 443, addresses: tuple[str, ...] = ()) -> dict[str, str]:
    """Return the variables by which a program on this host (git, npm) finds the proxy and the authorities.

    With a host, those for this one alone: nothing where it is reached straight.
    """
    found, more = upstream(), {}
    if file := trusted_file():
        names = ("SSL_CERT_FILE", "GIT_SSL_CAINFO", "GIT_PROXY_SSL_CAINFO", "CURL_CA_BUNDLE")
        more = dict.fromkeys(names, file) | {"NODE_EXTRA_CA_CERTS": found.authorities}
    proxy = on_the_way_to(host, port, addresses) if host else found.proxy
    if proxy is None:
        return more
    names = ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy", "ALL_PROXY", "all_proxy")
    # Without the last one git asks the proxy first without its credentials.
    around = "" if host else settings.HANDRAIL_UPSTREAM_NO_PROXY
    return (
        more
        | dict.fromkeys(names, proxy.address)
        | {"NO_PROXY": around, "no_proxy": around}
        | ({"GIT_HTTP_PROXY_AUTHMETHOD": "basic"} if proxy.user else {})
    )
