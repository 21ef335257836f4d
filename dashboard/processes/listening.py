"""The sockets that the web server listens on."""

import socket

from django.conf import settings

from dashboard.net.addresses import in_url
from dashboard.ops.bootstrap import StartRefused


def listen() -> list[socket.socket]:
    """Open the web server's sockets. Raise StartRefused if their address is in use.

    The supervisor keeps them open, so no connection is refused while web restarts.
    """
    host, port = settings.HANDRAIL_HOST or "0.0.0.0", settings.HANDRAIL_PORT
    try:
        opened = [_bound(host, port)]
        # Browsers try ::1 first for the desk's own name: another listener there would receive the session cookie.
        if settings.HANDRAIL_DESK_IS_LOCAL and opened[0].family == socket.AF_INET and has_ipv6_loopback():
            host = "::1"
            opened.append(_bound(host, port))
    except OSError as error:
        raise StartRefused(
            f"Handrail cannot listen on {in_url(host)}:{port}: {error.strerror}. Stop what uses that port, or choose "
            "another one with HANDRAIL_PORT (and the address with HANDRAIL_HOST)."
        ) from None
    return opened


def _bound(host: str, port: int) -> socket.socket:
    family, kind, protocol, _, address = socket.getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    opened = socket.socket(family, kind, protocol)
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    opened.bind(address)
    opened.listen(1024)
    opened.setblocking(False)
    return opened


def has_ipv6_loopback() -> bool:
    """Return True if this machine has ::1."""
    try:
        with socket.socket(socket.AF_INET6, socket.SOCK_STREAM) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return False
    return True
