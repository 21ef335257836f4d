"""What the runner knows of credentials, for tests of the proxy alone; and raw requests through TLS that it opened."""

import contextlib
import ssl

from workspaces.egress import authority
from workspaces.egress.http_rules import read_lines, scopes_at
from workspaces.egress.leash import Leashed, read_header, read_host
from workspaces.egress.request_gate import Opening
from workspaces.shim.redact import Redactor

NAME = "allowed.test"
REAL = "ghp_RealRealRealRealRealRealReal1234"
STAND_IN = "ghp_xxxxStandInStandInStandInxxx5678"


class Leashes:
    """`asked` and `uses` are what came; `answers` what is said to a use beyond the leash, or beyond the `rules`."""

    def __init__(self, folder, trusted, hosts: list[dict], *, header="Authorization: Bearer {}", answers=(), rules=()):
        authority.make(folder / "authority.pem")
        self.authority = authority.Authority(folder / "authority.pem")
        self.trusted = folder / "inside.pem"
        self.trusted.write_bytes(self.authority.certificate)
        self.tls = lambda: ssl.create_default_context(cafile=trusted)
        name = read_header(header)[0].lower()
        self.credential = Leashed("1", "github", name, STAND_IN, REAL, tuple(map(read_host, hosts)))
        self.asked, self.uses, self.answers, self.rules = [], [], list(answers), read_lines(rules)

    async def at(self, host, port):
        found = [self.credential] if self.credential.at(host, port) else []
        return Opening(found, scopes_at(self.rules, host, port))

    def answered(self, use):
        return None

    async def used(self, use):
        self.uses.append((use.method, use.path))

    async def ask(self, use):
        self.asked.append(use)
        return self.answers.pop(0) if self.answers else "Nobody allowed it."

    def scrubber(self, found):
        return Redactor([(one.name, one.value) for one in found])


def inside_tls(running, leashes, port: int, data: bytes, *, name=NAME, sni=None) -> bytes:
    """Send bytes through TLS with our certificate; all that comes back."""
    context = ssl.create_default_context(cafile=leashes.trusted)
    heard = b""
    with context.wrap_socket(running.tunnel(name, port), server_hostname=sni or name) as sock:
        sock.settimeout(15)
        sock.sendall(data)
        with contextlib.suppress(OSError):
            while part := sock.recv(65536):
                heard += part
    return heard
