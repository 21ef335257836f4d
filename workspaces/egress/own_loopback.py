"""The names and addresses by which a program means the loopback of its own workspace.

Many clients take the proxy for some of them, whatever NO_PROXY says. The proxy hands such a request back to the
workspace; it never connects to a loopback of its own.
"""

import ipaddress
import re
import socket

from .names import BadName, port_number

IPV4, IPV6 = "127.0.0.1", "::1"
# With those that Linux systems have in /etc/hosts: {name: addresses in the order in which they are tried}.
NAMES = {
    "localhost": (IPV4, IPV6),
    "localhost.localdomain": (IPV4, IPV6),
    "localhost4": (IPV4,),
    "localhost4.localdomain4": (IPV4,),
    "localhost6": (IPV6,),
    "localhost6.localdomain6": (IPV6,),
    "ip6-localhost": (IPV6,),
    "ip6-loopback": (IPV6,),
}
NUMBERS = re.compile(r"[0-9a-fx.]+")  # in each notation of inet_aton: 127.1, 0x7f000001, 017700000001


def target_of(authority: str, default: int, own_names: frozenset[str]) -> tuple[tuple[str, ...], int] | None:
    """Return (addresses, port) if the authority of a URL names the own loopback."""
    host, colon, port = authority.rpartition(":")
    if not colon or "]" in port or addresses_of(authority, own_names):
        host, port = authority, ""
    addresses = addresses_of(host, own_names)
    try:
        return (addresses, port_number(port) if port else default) if addresses else None
    except BadName:
        return None


def addresses_of(host: str, own_names: frozenset[str] = frozenset()) -> tuple[str, ...]:
    """Return the loopback addresses that a host of a URL stands for; () if it stands for another host.

    `own_names` are host names of the workspace, in lower case.
    """
    name = host.lower().removesuffix(".")
    if name in own_names or name.endswith(".localhost"):
        return NAMES["localhost"]
    return NAMES.get(name) or _of_address(name)


def _of_address(text: str) -> tuple[str, ...]:
    if ":" in text:  # httpx leaves out the brackets
        if text.startswith("[") and text.endswith("]"):
            text = text[1:-1]
        try:
            found = ipaddress.IPv6Address(text.partition("%")[0])
        except ValueError:
            return ()
        if found.ipv4_mapped is None:
            return (IPV6,) if found.is_loopback or found.is_unspecified else ()
        text = str(found.ipv4_mapped)
    if not NUMBERS.fullmatch(text):
        return ()
    try:
        address = ipaddress.IPv4Address(socket.inet_aton(text))
    except OSError:
        return ()
    if address.is_unspecified:  # a connection to 0.0.0.0 goes to this host
        return (IPV4,)
    return (str(address),) if address.is_loopback else ()
