"""List the TCP ports on which a workspace's programs listen, from /proc/PID/net/tcp of its network namespace."""

import asyncio
import socket

LISTENING = "0A"
# The egress proxy's own listeners inside the namespace.
OURS = {("127.0.0.1", 80), ("127.0.0.1", 3128)}


async def of(driver, owner) -> list[dict]:
    """Return [{address, port}] of a running Run, sorted by port; [] for one that shares this host's network."""
    return _listed(await asyncio.to_thread(driver.tcp_tables, owner))


def _listed(tables: list[str]) -> list[dict]:
    found = set()
    for table in tables:
        fields = (line.split() for line in table.splitlines()[1:])
        found |= {_address(line[1]) for line in fields if line[3:4] == [LISTENING]}
    return [{"address": address, "port": port} for address, port in sorted(found - OURS, key=lambda at: (at[1], at[0]))]


def _address(text: str) -> tuple[str, int]:
    """Parse an address of /proc/net/tcp: hexadecimal 32-bit words in native byte order, then the port."""
    host, port = text.split(":")
    raw = b"".join(bytes.fromhex(host[at : at + 8])[::-1] for at in range(0, len(host), 8))
    family = socket.AF_INET if len(raw) == 4 else socket.AF_INET6
    return socket.inet_ntop(family, raw), int(port, 16)
