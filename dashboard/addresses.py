"""Addresses to listen on and to call. Imports only the standard library, because the settings use it."""

from ipaddress import ip_address

# Wildcard to listen on: the address to call on this machine.
_WILDCARDS = {"0.0.0.0": "127.0.0.1", "": "127.0.0.1", "::": "::1"}


def to_call(host: str) -> str:
    """Return the address at which this machine reaches a server that listens on `host`."""
    return _WILDCARDS.get(host, host)


def in_url(host: str) -> str:
    """Return the host as written in a URL: IPv6 in brackets."""
    return f"[{host}]" if ":" in host else host


def is_loopback(host: str) -> bool:
    """Return True for names and addresses that never leave this machine."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def is_wildcard(host: str) -> bool:
    """Return True for an address to listen on that is no destination, as 0.0.0.0."""
    return host in _WILDCARDS
