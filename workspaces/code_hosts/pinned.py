"""A resolver of aiohttp's that answers with addresses that were checked before."""

import socket

from aiohttp.abc import AbstractResolver


class Pinned(AbstractResolver):
    """Resolves each name to the addresses that were checked, so that the name cannot lead elsewhere afterwards."""

    def __init__(self, addresses: tuple[str, ...]):
        self.addresses = addresses

    async def resolve(self, host: str, port: int = 0, family: int = socket.AF_UNSPEC):
        return [
            {
                "hostname": host,
                "host": address,
                "port": port,
                "family": socket.AF_INET6 if ":" in address else socket.AF_INET,
                "proto": 0,
                "flags": socket.AI_NUMERICHOST,
            }
            for address in self.addresses
        ]

    async def close(self):
        pass
