"""Which addresses are part of the open internet. Everything special is refused, whatever name leads to it."""

import asyncio
import ipaddress
import socket
from collections.abc import Awaitable, Callable, Iterable, Sequence
from pathlib import Path

RESOLVE_S = 10.0
Network = ipaddress.IPv4Network | ipaddress.IPv6Network
Resolve = Callable[[str], Awaitable[Sequence[str]]]

# A list of our own: what `ipaddress` calls global has changed between versions of Python.
SPECIAL_4 = """
    0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 168.63.129.16/32 169.254.0.0/16 172.16.0.0/12 192.0.0.0/24
    192.0.2.0/24 192.88.99.0/24 192.168.0.0/16 198.18.0.0/15 198.51.100.0/24 203.0.113.0/24 224.0.0.0/3
"""
# Of IPv6 only 2000::/3 is in use: mapped, compatible, NAT64, link-local and multicast addresses all lie outside it.
GLOBAL_6 = ipaddress.ip_network("2000::/3")
SPECIAL_6 = "2001::/23 2001:db8::/32 2002::/16 3fff::/20"
SPECIAL = [ipaddress.ip_network(text) for text in f"{SPECIAL_4} {SPECIAL_6}".split()]


class Unresolved(Exception):
    """Why a name leads to no address that may be reached, in words."""


def read_networks(text: str) -> tuple[Network, ...]:
    """`10.1.0.0/16,fd00::/8` → networks. ValueError."""
    return tuple(ipaddress.ip_network(part.strip()) for part in text.split(",") if part.strip())


def may_be_reached(address: str, also: Iterable[Network] = ()) -> bool:
    """Is it an address of the open internet, or in a network that the installation names?"""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return False
    if getattr(found, "scope_id", None) or getattr(found, "ipv4_mapped", None):
        return False
    if any(found in network for network in also if network.version == found.version):
        return True
    if any(found in network for network in SPECIAL if network.version == found.version):
        return False
    return found.version == 4 or found in GLOBAL_6


async def ask_system(name: str) -> list[str]:
    """The addresses that this host knows for a name."""
    found = await asyncio.get_running_loop().getaddrinfo(name, None, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(sockaddr[0] for *_, sockaddr in found))


def with_hosts_file(path: Path) -> Resolve:
    """A resolver that looks into a file of `address name…` lines first, read anew each time."""

    async def resolve(name: str) -> Sequence[str]:
        lines = [line.partition("#")[0].lower().split() for line in path.read_text().splitlines()]
        return [words[0] for words in lines if name in words[1:]] or await ask_system(name)

    return resolve


async def pinned(name: str, resolve: Resolve, also: Iterable[Network]) -> list[str]:
    """Resolve once; the addresses that may be connected to. Unresolved in words."""
    try:
        found = await asyncio.wait_for(resolve(name), RESOLVE_S)
    except (OSError, TimeoutError, UnicodeError):
        found = []
    if not found:
        raise Unresolved("the name leads to no address")
    if not (good := [address for address in found if may_be_reached(address, also)]):
        raise Unresolved("the name leads to a private or special address")
    return good
