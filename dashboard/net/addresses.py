"""Addresses to listen on and to call. Imports only the standard library, because the settings use it."""

from ipaddress import ip_address

# Wildcard to listen on: the address to call on this machine.
_WILDCARDS = {"0.0.0.0": "127.0.0.1", "": "127.0.0.1", "::": "::1"}

PREVIEWS = "preview.localhost"


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


def local_preview_host(desk: str) -> str:
    """Return the host name of previews beside a desk of this machine alone; "" if they need another one."""
    return PREVIEWS if is_loopback(desk) and not shared_domain(PREVIEWS, desk) else ""


def shared_domain(preview: str, desk: str) -> str:
    """Return why pages of `preview` could set or read cookies of the desk, as a clause; "" if they can't."""
    if preview == desk or preview.endswith(f".{desk}") or desk.endswith(f".{preview}"):
        return f"it lies below {desk}, or {desk} below it"
    if is_loopback(preview) and is_loopback(desk):
        return ""
    from publicsuffixlist import PublicSuffixList  # here: its list takes 0.1 s, and few installations need it

    domain = PublicSuffixList().privatesuffix(preview)
    if domain is None:
        return "it is no name below a public suffix, such as preview.example.net"
    return f"it shares the domain {domain} with {desk}" if desk == domain or desk.endswith(f".{domain}") else ""
