"""Passes: hosts that an approval opened for one program of a Run, which shows its pass to the proxy as a password."""

import base64
import binascii
import hashlib
import json
import time
from collections.abc import Iterable
from pathlib import Path

from dashboard.files.atomic_write import replace_file

from .names import BadName, host_and_port

USER = "handrail"


class Passes:
    """The passes of one Run that are valid now. In `file` they outlive the process, without their tokens."""

    def __init__(self, file: Path | None = None):
        self.file = file
        self._hosts: dict[str, frozenset[tuple[str, int]]] = {}  # by the digest of the token
        self._until: dict[str, float] = {}  # Unix times
        self._tasks: dict[str, set] = {}  # of the connections that each of them opened
        self._load()

    def add(self, token: str, hosts: Iterable[str], *, seconds: float | None = None):
        """Let the program with this token reach these hosts, as host:port, for so long; what is no host is left out."""
        found = set()
        for host in hosts:
            try:
                found.add(host_and_port(host, None))
            except BadName:
                continue
        self._hosts[_digest(token)] = frozenset(found)
        if seconds:
            self._until[_digest(token)] = time.time() + seconds
        self._save()

    def end(self, token: str):
        """Forget a pass, and end the connections that it opened."""
        if self._forget(_digest(token)):
            self._save()
        for task in self._tasks.pop(token, ()):
            task.cancel()

    def close(self):
        """Forget all passes, as their Run is over."""
        self._hosts, self._until = {}, {}
        if self.file is not None:
            self.file.unlink(missing_ok=True)

    def shown(self, values: list[str], host: str, port: int) -> str:
        """Return the token among some Proxy-Authorization fields that opens the host; "" if none does."""
        tokens = (_password(value) for value in values)
        return next((token for token in tokens if self.opens(token, host, port)), "")

    def opens(self, token: str, host: str, port: int) -> bool:
        digest = _digest(token)
        return (host, port) in self._hosts.get(digest, ()) and self._until.get(digest, time.time() + 1) > time.time()

    def asks(self, host: str, port: int) -> bool:
        """Return whether some pass opens the host, so that a program without one may be asked for it."""
        return any((host, port) in hosts for hosts in self._hosts.values())

    def began(self, token: str, task):
        tasks = self._tasks.setdefault(token, set())
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    def _forget(self, digest: str) -> bool:
        self._until.pop(digest, None)
        return self._hosts.pop(digest, None) is not None

    def _load(self):
        try:
            kept = json.loads(self.file.read_bytes()) if self.file is not None else {}
            for digest, (hosts, until) in kept.items():
                self._hosts[digest] = frozenset((host, port) for host, port in hosts)
                self._until |= {digest: until} if until else {}
        except (OSError, ValueError, TypeError, AttributeError):
            self._hosts, self._until = {}, {}  # none, or nothing that can be trusted: then nothing is open

    def _save(self):
        if self.file is None:
            return
        kept = {digest: (sorted(hosts), self._until.get(digest)) for digest, hosts in self._hosts.items()}
        self.file.parent.mkdir(mode=0o700, exist_ok=True)
        replace_file(self.file, json.dumps(kept).encode(), durable=False)


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


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
