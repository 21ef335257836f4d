"""A guest without a machine: the bundled server as a child process, with nothing but Python, over a pair of sockets."""

import functools
import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

from workspaces.store.guest.client import RemoteTree, bundle

_folder = tempfile.TemporaryDirectory(prefix="handrail-guest-")


@functools.cache
def program() -> Path:
    path = Path(_folder.name) / "handrail-tree.pyz"
    path.write_bytes(bundle())
    return path


class Guest:
    """One server for one folder; it stays up between uses, and another is started in the place of a dead one."""

    def __init__(self, root: Path, wrap: tuple = ()):
        self.root, self.wrap = Path(root), wrap
        self.journal = self.root.parent / f".{self.root.name}.journal"
        self.process = None

    def connect(self):
        if self.process is None or self.process.poll() is not None:
            self.close()
            here, there = socket.socketpair()
            # -I -S: no packages, no site, nothing of this checkout.
            command = [*self.wrap, sys.executable, "-I", "-S", "-B", program(), self.root, "--journal", self.journal]
            self.process = subprocess.Popen([*map(str, command)], stdin=there, stdout=there)
            there.close()
            self.socket = here
        fd = self.socket.fileno()
        return fd, fd, lambda: None

    def tree(self) -> RemoteTree:
        return RemoteTree(self.connect, name=os.fspath(self.root), timeout_s=60)

    def close(self):
        if self.process is not None:
            self.socket.close()
            self.process.wait(10)
            self.process = None
