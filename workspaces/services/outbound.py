"""Which addresses notifications may be sent to: public ones, and the private networks that the operator lists.

Endpoints and channels are typed by people, so this process must not become their way to services beside it. The check
is made on each connection, after names were looked up: it also holds for redirects and for names that change. Where the
company's proxy connects, it is the name that is checked, as far as this machine can look it up; the proxy may find
another address for it.
"""

import sys
from contextlib import contextmanager
from contextvars import ContextVar
from ipaddress import ip_address
from socket import SOCK_STREAM, getaddrinfo
from threading import Lock
from urllib.parse import urlsplit

from django.conf import settings

from dashboard.net import outbound
from dashboard.net.addresses import is_loopback
from workspaces.egress.addresses import may_be_reached

MAX_ENDPOINT = 2000  # characters

_lock = Lock()
_guards = 0
_installed = False
_proxies: set[tuple[str, int]] = set()  # (address, port) of the company's proxy
_here: ContextVar["Guard | None"] = ContextVar("guard", default=None)


class Guard:
    """Whether `only_reachable_in_task` refused a connection."""

    refused = False


class Unreachable(OSError):
    """The address is private or special, so nothing is sent there."""


def may_be_sent_to(host: str) -> bool:
    """Return whether an IP address is public, or in HANDRAIL_NOTIFY_NETWORKS."""
    return may_be_reached(host, settings.HANDRAIL_NOTIFY_NETWORKS)


def is_acceptable_endpoint(url: str) -> bool:
    """Return whether a push endpoint is https and no private address; http only in a network that is listed."""
    if not (url.isascii() and url.isprintable()) or " " in url:
        return False
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname or "", parts.port
    except ValueError:
        return False
    if not host or len(url) > MAX_ENDPOINT or parts.username or parts.password:
        return False
    try:
        ip_address(host)
    except ValueError:
        # The addresses of a name are checked on each connection.
        return parts.scheme == "https" and not is_loopback(host) and "." in host
    if not may_be_sent_to(host):
        return False
    return parts.scheme == "https" or (parts.scheme == "http" and not may_be_reached(host))


@contextmanager
def only_reachable():
    """Refuse each connection of this process to an address that `may_be_sent_to` does not allow: Unreachable.

    Python's audit events see the address that a socket connects to, whatever library opened it.
    """
    global _guards
    _install()
    with _lock:
        _guards += 1
    try:
        yield
    finally:
        with _lock:
            _guards -= 1


@contextmanager
def only_reachable_in_task():
    """Apply `only_reachable` to this thread or asyncio task and the tasks that it starts; yield the Guard.

    Other connections of the process, such as to the database, are not affected. HTTP libraries may wrap the exception,
    so Guard.refused says that it was raised.
    """
    _install()
    guard = Guard()
    before = _here.set(guard)
    try:
        yield guard
    finally:
        _here.reset(before)


def _install():
    global _installed
    with _lock:
        if not _installed:
            sys.addaudithook(_check)
            _installed = True


def _check(event: str, arguments: tuple):
    if event not in ("socket.connect", outbound.BY_PROXY):
        return
    here = _here.get()
    if not _guards and here is None:
        return
    is_good = _may_be_named(*arguments) if event == outbound.BY_PROXY else _may_be_connected(arguments[1])
    if not is_good:
        if here is not None:
            here.refused = True
        raise Unreachable("It leads to a private or special address.")


def _may_be_connected(address) -> bool:
    if not isinstance(address, tuple):
        return False
    host, port = str(address[0]).partition("%")[0], address[1]
    return may_be_sent_to(host) or (host, port) in _proxies


def _may_be_named(host: str, port: int, proxy_host: str, proxy_port: int) -> bool:
    """Return whether a proxy may be asked for this host, and let the proxy itself be connected to from then on."""
    found = _looked_up(host, port)
    if found and not all(may_be_sent_to(address.partition("%")[0]) for address in found):
        return False
    _proxies.update((address.partition("%")[0], proxy_port) for address in _looked_up(proxy_host, proxy_port))
    return True


def _looked_up(host: str, port: int) -> list[str]:
    """Return the addresses of a name; none if only the proxy may know it."""
    try:
        return [info[4][0] for info in getaddrinfo(host, port, type=SOCK_STREAM)]
    except (OSError, UnicodeError):
        return []
