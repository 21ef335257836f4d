"""The egress proxy in a process of its own, with one host allowed and, if wanted, a credential for it.

It serves two Runs, as one takes at most 256 connections.
"""

import asyncio
import socket
import ssl
from pathlib import Path

from bench.egress.origin import NAME
from workspaces.egress import authority
from workspaces.egress.addresses import read_networks
from workspaces.egress.leash import Leashed, read_header, read_host
from workspaces.egress.proxy import Proxy
from workspaces.egress.request_gate import Opening
from workspaces.shim.redact import Redactor

REAL, STAND_IN = "ghp_RealRealRealRealRealRealReal1234", "ghp_xxxxStandInStandInStandInxxx5678"


class Allowing:
    """Access rules that allow all and record nothing."""

    async def check(self, host, port):
        return None

    async def admit(self, attempt):
        return None

    def log_blocked(self, attempt):
        pass

    def log_ended(self, attempt):
        pass

    def how_to_allow(self, host, port):
        return ""


class OneCredential:
    """A credential for the origin, within whose leash all requests are."""

    def __init__(self, folder: Path, trusted: Path, port: int):
        authority.make(folder / "authority.pem")
        self.authority = authority.Authority(folder / "authority.pem")
        (folder / "inside.pem").write_bytes(self.authority.certificate)
        context = ssl.create_default_context(cafile=trusted)
        self.tls = lambda: context
        self.redactor = Redactor([("bench", REAL)])
        hosts = (read_host({"host": f"{NAME}:{port}", "methods": ["GET"]}),)
        name = read_header("Authorization: Bearer {}")[0].lower()
        self.credential = Leashed("1", "bench", name, STAND_IN, REAL, hosts)

    async def at(self, host, port):
        return Opening([self.credential])

    async def used(self, use):
        pass

    async def ask(self, use):
        return "Nobody is asked here."

    def answered(self, use):
        return None

    def scrubber(self, found):
        return self.redactor.again()


async def _resolve(name):
    return ["127.0.0.1"]


async def serve(ports: list[int], leashes: OneCredential | None):
    """Serve a Run at each of the ports until the process ends."""
    for port in ports:
        proxy = Proxy(Allowing(), resolve=_resolve, networks=read_networks("127.0.0.0/8"), leashes=leashes)
        await proxy.serve(socket.create_server(("127.0.0.1", port)))
    await asyncio.Event().wait()
