"""Passes: hosts that an approval opened for one program of a Run, which shows its pass to the proxy as a password."""

import base64
import binascii
from collections.abc import Iterable

from .names import BadName, host_and_port

USER = "handrail"


class Passes:
    """The passes of one Run that are valid now."""

    def __init__(self):
        self._hosts: dict[str, frozenset[tuple[str, int]]] = {}
        self._tasks: dict[str, set] = {}  # of the connections that each of them opened

    def add(self, token: str, hosts: Iterable[str]):
        """Let the program with this token reach these hosts, as host:port; what is no host is left out."""
        found = set()
        for host in hosts:
            try:
                found.add(host_and_port(host, None))
            except BadName:
                continue
        self._hosts[token] = frozenset(found)

    def end(self, token: str):
        """Forget a pass, and end the connections that it opened."""
        self._hosts.pop(token, None)
        for task in self._tasks.pop(token, ()):
            task.cancel()

    def shown(self, values: list[str], host: str, port: int) -> str:
        """Return the token among some Proxy-Authorization fields that opens the host; "" if none does."""
        tokens = (_password(value) for value in values)
        return next((token for token in tokens if self.opens(token, host, port)), "")

    def opens(self, token: str, host: str, port: int) -> bool:
        return (host, port) in self._hosts.get(token, ())

    def asks(self, host: str, port: int) -> bool:
        """Return whether some pass opens the host, so that a program without one may be asked for it."""
        return any((host, port) in hosts for hosts in self._hosts.values())

    def began(self, token: str, task):
        tasks = self._tasks.setdefault(token, set())
        tasks.add(task)
        task.add_done_callback(tasks.discard)


def proxy_address(address: str, token: str) -> str:
    """Return the proxy's address with the pass in it, for a program's variables."""
    scheme, _, rest = address.partition("://")
    return f"{scheme}://{USER}:{token}@{rest}"


def _password(field: str) -> str:
    scheme, _, value = field.partition(" ")
    if scheme.lower() != "basic":
        return ""
    try:
        return base64.b64decode(value.strip(), validate=True).decode("ascii").partition(":")[2]
    except (binascii.Error, UnicodeDecodeError):
        return ""
