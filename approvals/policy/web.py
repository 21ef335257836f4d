"""Addresses: which host a URL reaches, and which hosts are private to this machine or its network."""

import ipaddress
import re
from urllib.parse import urlsplit

LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
LOCAL_SUFFIXES = (
    ".localhost",
    ".local",
    ".internal",
    ".lan",
    ".home",
    ".corp",
    ".intranet",
    ".home.arpa",
    ".localdomain",
)
# Names that resolve to the address written in them, or to this machine.
LOCAL_SUFFIXES += (".nip.io", ".sslip.io", ".xip.io", "localtest.me", "lvh.me", "vcap.me")
DEFAULT_PORTS = {"http": 80, "https": 443}


class BadAddress(ValueError):
    """An address whose host two parsers could read differently; the message says why."""


def parts_of(url, *, schemes=("http", "https")):
    """Return (scheme, host, port) of an address; BadAddress if it is not plain."""
    if not isinstance(url, str) or not url:
        raise BadAddress("is empty")
    if not url.isascii() or not url.isprintable() or re.search(r"[\s\\<>\"`{}|^]", url):
        raise BadAddress("holds characters that do not belong in an address")
    match = re.match(r"([A-Za-z][A-Za-z0-9+.-]*)://([^/?#]*)", url)
    if not match or match.group(1).lower() not in schemes:
        raise BadAddress(f"is not an address of {' or '.join(schemes)}")
    scheme, authority = match.group(1).lower(), match.group(2)
    if "@" in authority:
        raise BadAddress("holds a user name before the host")
    try:
        split = urlsplit(url)
        port = split.port
        host = (split.hostname or "").rstrip(".")
    except ValueError:
        raise BadAddress("has a host or a port that cannot be read") from None
    return scheme, _plain_host(host), port


def _plain_host(host):
    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        pass
    labels = host.split(".")
    if not host or len(host) > 253 or not all(LABEL.fullmatch(label) for label in labels):
        raise BadAddress("has a host that is not a plain name")
    if re.fullmatch(r"(?:0x[0-9a-f]*|\d+)", labels[-1]):
        raise BadAddress("has a host in numbers that programs read differently")
    return host


def host_of(url):
    """Return the host of an address, with an unusual port; None if it is not certain."""
    try:
        scheme, host, port = parts_of(url if "://" in str(url) else f"http://{url}")
    except BadAddress:
        return None
    return host if port in (None, DEFAULT_PORTS[scheme]) else f"{host}:{port}"


def address_of(url):
    """Return (host:port,) of an address, which without a scheme is one of http.

    () if the host is not certain, is this machine, or is no name: the proxy takes only names.
    """
    try:
        scheme, host, port = parts_of(url if "://" in str(url) else f"http://{url}")
    except BadAddress:
        return ()
    is_number = ":" in host or host.rpartition(".")[2].isdigit()
    return () if is_number or is_loopback(host) else (f"{host}:{port or DEFAULT_PORTS[scheme]}",)


def is_private(host):
    """Return True for names and addresses that lead to this machine, its network or a metadata service."""
    host = host.rsplit(":", 1)[0] if host.count(":") == 1 else host
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host == "localhost" or "." not in host or host.endswith(LOCAL_SUFFIXES)
    mapped = getattr(address, "ipv4_mapped", None) or getattr(address, "sixtofour", None)
    return not address.is_global or address.is_multicast or (mapped is not None and not mapped.is_global)


def is_loopback(host):
    """Return True for names and addresses of this machine itself, with or without a port."""
    name = host.rsplit(":", 1)[0] if host.count(":") == 1 else host
    return name in ("localhost", "::1") or re.fullmatch(r"127(?:\.\d{1,3}){3}", name) is not None


def domain_covers(spec, scheme, host, port):
    """Return why `WebFetch(domain:…)` does not cover a host, or None if it does."""
    domain, _, named_port = spec.lower().rstrip(".").partition(":")
    if port not in (None, DEFAULT_PORTS.get(scheme)) and named_port != str(port):
        return f"port {port} is not named by the rule"
    if domain == "*":
        return f"{host} is a private address" if is_private(host) else None
    if domain.startswith("*."):
        if is_private(host):
            return f"{host} is a private address"
        return None if host.endswith(domain[1:]) else f"{host} is not below {domain[2:]}"
    return None if host == domain else f"{host} is not {domain}"
