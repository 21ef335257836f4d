"""On which ports programs of a workspace listen, as the kernel lists the sockets of its network namespace."""

import asyncio
import os
import socket
from pathlib import Path

from workspaces.drivers.base import DriverError
from workspaces.store import StoreError

LISTENING = "0A"
# Our own ways out, made inside the namespace for the workspace's use.
OURS = {("127.0.0.1", 80), ("127.0.0.1", 3128)}


async def of(driver, owner) -> list[dict]:
    """[{address, port}] of a Run that is up, in order; nothing for one that shares its network with this host."""
    if owner.pid is None or not driver.capabilities.network:
        return []
    if driver.capabilities.guest_files:
        return await asyncio.to_thread(_in_guest, driver.tree(owner))
    return await asyncio.to_thread(listening, owner.pid)


def _in_guest(tree) -> list[dict]:
    try:
        with tree.files() as files:
            return _listed(files.sockets())
    except (DriverError, StoreError, OSError):
        return []  # it is on its way out, or gone


def listening(pid: int) -> list[dict]:
    if _same_network(pid):
        return []
    tables = []
    for name in ("tcp", "tcp6"):
        try:
            tables.append(Path(f"/proc/{pid}/net/{name}").read_text())
        except OSError:
            continue  # it has just ended, or there is no IPv6
    return _listed(tables)


def _listed(tables: list[str]) -> list[dict]:
    found = set()
    for table in tables:
        fields = (line.split() for line in table.splitlines()[1:])
        found |= {_address(line[1]) for line in fields if line[3:4] == [LISTENING]}
    return [{"address": address, "port": port} for address, port in sorted(found - OURS, key=lambda at: (at[1], at[0]))]


def _same_network(pid: int) -> bool:
    try:
        return os.readlink(f"/proc/{pid}/ns/net") == os.readlink("/proc/self/ns/net")
    except OSError:
        return False  # not ours to look at: it is somebody else's, in a namespace of its own


def _address(text: str) -> tuple[str, int]:
    """The kernel writes addresses as words of this machine's byte order, in hexadecimal."""
    host, port = text.split(":")
    raw = b"".join(bytes.fromhex(host[at : at + 8])[::-1] for at in range(0, len(host), 8))
    family = socket.AF_INET if len(raw) == 4 else socket.AF_INET6
    return socket.inet_ntop(family, raw), int(port, 16)
