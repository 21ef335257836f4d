"""Context for the policy: where a page that a rule lets an agent fetch really leads, by its addresses and redirects.

Only calls that would run are looked at, so that no name or address is contacted that the agent could not fetch anyway.
"""

import http.client
import ipaddress
import socket
import threading
import time
from contextlib import closing
from urllib.parse import urljoin, urlsplit

from django.conf import settings

from approvals.policy.web import BadAddress, parts_of
from dashboard.net import outbound
from workspaces.egress.addresses import listed_in, may_be_reached

RESOLVE_SECONDS, REDIRECT_SECONDS = 1.0, 1.5
MAX_HOPS = 3  # on the same host; a redirect to another host is a page of its own
MOVED = (301, 302, 303, 307, 308)
MAX_ADDRESS = 4096


def destinations_of(tool: str, arguments: dict) -> dict:
    """Return {"resolves_to": addresses, "redirects_to": addresses of pages} of a fetch; {} for what is not known."""
    url = arguments.get("url")
    if tool != "WebFetch" or not isinstance(url, str) or len(url) > MAX_ADDRESS:
        return {}
    try:
        _, host, _ = parts_of(url)
    except BadAddress:
        return {}
    addresses = resolved(host)
    inward = [address for address in addresses if not may_be_reached(address, settings.HANDRAIL_EGRESS_NETWORKS)]
    if inward or not addresses:
        return {"resolves_to": inward} if inward else {}
    return {"redirects_to": found} if (found := redirects(url, addresses[0])) else {}


def resolved(host: str) -> list[str]:
    """Return the addresses of a host, none if it is not known in time."""
    found = []

    def resolve():
        try:
            known = listed_in(settings.HANDRAIL_EGRESS_HOSTS, host)
            found.extend(known or [info[4][0] for info in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)])
        except (OSError, UnicodeError):
            pass

    looking = threading.Thread(target=resolve, daemon=True)  # the system's resolver has no time limit of its own
    looking.start()
    looking.join(RESOLVE_SECONDS)
    return list(dict.fromkeys(found))


def redirects(url: str, address: str) -> list[str]:
    """Return the pages that a page redirects to, asked at this address: up to the first one on another host."""
    until, found = time.monotonic() + REDIRECT_SECONDS, []
    while len(found) < MAX_HOPS:
        try:
            target = _moved_to(url, address, until - time.monotonic())
            if target is None:
                break
            found.append(target[:MAX_ADDRESS])
            if parts_of(target)[1:] != parts_of(url)[1:] or time.monotonic() >= until:
                break
        except (OSError, http.client.HTTPException, BadAddress, ValueError):
            break
        url = target
    return found


def _moved_to(url: str, address: str, seconds: float) -> str | None:
    """Return where a HEAD request for the page is redirected to, or None."""
    if seconds <= 0:
        raise TimeoutError(url)
    scheme, host, port = parts_of(url)
    split = urlsplit(url)
    connection = http.client.HTTPConnection(host, port or {"http": 80, "https": 443}[scheme], timeout=seconds)
    plain = outbound.connect(host, connection.port, seconds, addresses=(str(ipaddress.ip_address(address)),))
    # A server that sends byte after byte would never reach the time limit of one read.
    end = threading.Timer(seconds, plain.shutdown, [socket.SHUT_RDWR])
    end.start()
    with closing(plain), closing(connection):
        try:
            secure = scheme == "https"
            connection.sock = outbound.wrapped(plain, host) if secure else plain
            path = (split.path or "/") + (f"?{split.query}" if split.query else "")
            connection.request("HEAD", path, headers={"User-Agent": "Handrail"})
            response = connection.getresponse()
        finally:
            end.cancel()
        location = response.getheader("Location") if response.status in MOVED else None
        return urljoin(url, location) if location else None
