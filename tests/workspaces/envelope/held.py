"""Programs in a ring, in real Runs of every driver."""

import os
import textwrap

from tests.workspaces.drivers.runs import Running, finish
from workspaces.drivers.init_client import InitClient
from workspaces.envelope.envelope import Envelope


class Held:
    """One Run, and what a program that is held to an envelope does in it."""

    def __init__(self, run: Running):
        self.run = run
        with InitClient(run.owner.address.socket) as init:
            self.abilities = init.request("abilities")["abilities"]

    def ring(self, envelope: Envelope) -> dict:
        return {"envelope": envelope.to_json(), "workspace": "/workspace", "home": "/home/agent"}

    def sh(self, command: str, envelope: Envelope, **fields) -> tuple[str, int]:
        return self.told(command, envelope, **fields)[:2]

    def told(self, command: str, envelope: Envelope, **fields) -> tuple[str, int, list]:
        """Output with standard error, status, and what was refused."""
        with InitClient(self.run.owner.address.socket) as init:
            started = self.run.begin(init, command, ring=self.ring(envelope), **fields)
            return *finish(init, started), init.blocked.get(started.pid, [])

    def start(self, command: str, ring: dict):
        with InitClient(self.run.owner.address.socket) as init:
            self.run.begin(init, command, ring=ring)

    def python(self, code: str, envelope: Envelope) -> tuple[str, int]:
        return self.sh(f"python3 - <<'END'\n{textwrap.dedent(code)}\nEND", envelope)

    def leave(self, command: str, envelope: Envelope | None) -> int:
        """Start a program that stays; its pid in the Run."""
        ring = {"ring": self.ring(envelope)} if envelope is not None else {}
        with InitClient(self.run.owner.address.socket) as init:
            started = self.run.begin(init, command, keep=True, **ring)
            os.close(started.fd)
            return started.pid
