"""Resolve host names to public internet addresses; refuse special-purpose addresses under any name."""

import asyncio
import ipaddress
import socket
from collections.abc import Awaitable, Callable, Iterable, Sequence
from pathlib import Path

from .attempts import Block, BlockCode

RESOLVE_TIMEOUT = 10.0
Network = ipaddress.IPv4Network | ipaddress.IPv6Network
Resolve = Callable[[str], Awaitable[Sequence[str]]]

# An explicit list: the result of `ipaddress.is_global` has changed between versions of Python.
SPECIAL_4 = """
    0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 168.63.129.16/32 169.254.0.0/16 172.16.0.0/12 192.0.0.0/24
    192.0.2.0/24 192.88.99.0/24 192.168.0.0/16 198.18.0.0/15 198.51.100.0/24 203.0.113.0/24 224.0.0.0/3
"""
# IPv6 global unicast is 2000::/3; mapped, compatible, NAT64, link-local and multicast addresses are outside it.
GLOBAL_6 = ipaddress.ip_network("2000::/3")
SPECIAL_6 = "2001::/23 2001:db8::/32 2002::/16 3fff::/20"
SPECIAL = [ipaddress.ip_network(text) for text in f"{SPECIAL_4} {SPECIAL_6}".split()]


class Unresolved(Exception):
    """The name resolves to no address that may be reached."""

    def __init__(self, block: Block):
        super().__init__(block.message)
        self.block = block


def read_networks(text: str) -> tuple[Network, ...]:
    """Parse comma-separated CIDR blocks such as `10.1.0.0/16,fd00::/8`. Raise ValueError for an invalid one."""
    return tuple(ipaddress.ip_network(part.strip()) for part in text.split(",") if part.strip())


def may_be_reached(address: str, extra: Iterable[Network] = ()) -> bool:
    """Return True for a public internet address, or one in the networks `extra` that the installation allows."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return False
    if getattr(found, "scope_id", None) or getattr(found, "ipv4_mapped", None):
        return False
    if any(found in network for network in extra if network.version == found.version):
        return True
    if any(found in network for network in SPECIAL if network.version == found.version):
        return False
    return found.version == 4 or found in GLOBAL_6


async def resolve_by_system(name: str) -> list[str]:
    """Resolve a name with the host's resolver (getaddrinfo); return its addresses without duplicates."""
    found = await asyncio.get_running_loop().getaddrinfo(name, None, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(sockaddr[0] for *_, sockaddr in found))


def listed_in(path: str | Path, name: str) -> list[str]:
    """Return a name's addresses from a file in hosts(5) format; an empty list when `path` is empty."""
    if not path:
        return []
    lines = [line.partition("#")[0].lower().split() for line in Path(path).read_text().splitlines()]
    return [words[0] for words in lines if name in words[1:]]


def with_hosts_file(path: Path) -> Resolve:
    """Return a resolver that tries a file in hosts(5) format first and rereads it for each lookup."""

    async def resolve(name: str) -> Sequence[str]:
        return listed_in(path, name) or await resolve_by_system(name)

    return resolve


async def resolve_public(name: str, resolve: Resolve, extra: Iterable[Network]) -> list[str]:
    """Resolve a name once and return the addresses that may be connected to. Raise Unresolved if there are none."""
    try:
        async with asyncio.timeout(RESOLVE_TIMEOUT):
            found = await resolve(name)
    except (OSError, TimeoutError, UnicodeError):
        found = []
    if not found:
        raise Unresolved(Block(BlockCode.UNRESOLVED, "the name can't be resolved"))
    if not (good := [address for address in found if may_be_reached(address, extra)]):
        raise Unresolved(Block(BlockCode.PRIVATE_ADDRESS, "the name leads to a private or special address"))
    return good
