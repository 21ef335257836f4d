"""A guest without a machine: the bundled server as a child process, with nothing but Python, over a pair of sockets."""

import functools
import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

from workspaces.store.guest.client import RemoteTree, bundle
from workspaces.store.guest.watched import GuestWatched

# The server, changed by CODE before it starts: python3 -c … CODE PROGRAM ARGUMENTS
_CHANGED = """
import sys
code = sys.argv[1]
del sys.argv[:2]
sys.path.insert(0, sys.argv[0])
from handrail_tree.guest.server import main
exec(code)
sys.exit(main())
"""


def only(way: str) -> str:
    """Return the code that leaves a server one source of events, by the name of its class."""
    kernels = "from handrail_tree.watch import kernels"
    return f"{kernels}; kernels.WAYS = tuple(way for way in kernels.WAYS if way.__name__ == {way!r})"


_folder = tempfile.TemporaryDirectory(prefix="handrail-guest-")


@functools.cache
def program() -> Path:
    path = Path(_folder.name) / "handrail-tree.pyz"
    path.write_bytes(bundle())
    path.parent.chmod(0o755)  # for servers of other users
    return path


class Guest:
    """One server for one folder; it stays up between uses, and another is started in the place of a dead one."""

    def __init__(self, root: Path, wrap: tuple = (), watched: GuestWatched | None = None, code: str = ""):
        self.root, self.wrap, self.watched, self.code = Path(root), wrap, watched, code
        self.journal = self.root.parent / f".{self.root.name}.journal"
        self.process = None

    def connect(self):
        if self.process is None or self.process.poll() is not None:
            self.close()
            here, there = socket.socketpair()
            # -I -S: no packages, no site, nothing of this checkout.
            served = ["-c", _CHANGED, self.code] if self.code else []
            served = [*served, program(), self.root, "--journal", self.journal]
            command = [*self.wrap, sys.executable, "-I", "-S", "-B", *served]
            self.process = subprocess.Popen([*map(str, command)], stdin=there, stdout=there)
            there.close()
            self.socket = here
        fd = self.socket.fileno()
        return fd, fd, lambda: None

    def tree(self) -> RemoteTree:
        found = RemoteTree(self.connect, name=os.fspath(self.root), timeout_s=60)
        found.watched = self.watched
        return found

    def close(self):
        if self.process is not None:
            self.socket.close()
            self.process.wait(10)
            self.process = None
