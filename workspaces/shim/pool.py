"""Start shims, each a fork of the fork server, which has imported everything a shim needs.

The fork server is single-threaded, holds no state of any program, and ends with the process that started it; shims
outlive both. A request carries one end of a socket pair. The fork reads its task from it, so the fork server never sees
a secret, and writes a byte when it has begun, when its program runs, and when the program has ended.
"""

import array
import os
import select
import socket
import subprocess
import sys
import threading
from importlib.util import find_spec
from pathlib import Path

from workspaces.drivers.base import DriverError
from workspaces.drivers.reaping import reap_in_background

PROJECT = Path(__file__).resolve().parents[2]
REDACTION = str(Path(find_spec("ahocorasick_rs").origin).parents[1])  # the folder of the package that redacts output
FORK_TIMEOUT_S = 20.0

_lock = threading.Lock()
_fork_server: tuple[subprocess.Popen, socket.socket] | None = None


class NewShim:
    """The connection to a shim that was just started."""

    def __init__(self, line: socket.socket):
        self._line = line
        self.is_gone = False

    def hear(self, timeout_s: float) -> None:
        """Wait for a byte from the shim, its end (then `is_gone`) or the timeout."""
        if self.is_gone or not select.select([self._line], [], [], timeout_s)[0]:
            return
        try:
            self.is_gone = self._line.recv(64) == b""
        except OSError:
            self.is_gone = True

    def close(self) -> None:
        self._line.close()


def prepare() -> None:
    """Start the fork server before the first program needs it."""
    with _lock:
        _open_fork_server()


def end() -> None:
    """End the fork server; the shims that it has started live on."""
    global _fork_server
    with _lock:
        if _fork_server is not None:
            _fork_server[1].close()
            _fork_server = None


def spawn(folder: Path, handed: bytes = b"") -> NewShim:
    """Start a shim for `folder`, which outlives this process; `handed` goes over a socket and is never on disk.

    Raise DriverError if it does not start.
    """
    task = os.fsencode(folder.resolve()) + b"\n" + handed
    for _ in range(2):  # the fork server may have been killed
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                _request_fork(theirs)
            ours.settimeout(FORK_TIMEOUT_S)
            ours.sendall(task)
            ours.shutdown(socket.SHUT_WR)
            if ours.recv(1):
                return NewShim(ours)
        except OSError:
            pass
        ours.close()
        end()
    raise DriverError("The program's host process did not start.")


def _request_fork(line: socket.socket) -> None:
    with _lock:
        control = _open_fork_server()
        rights = array.array("i", [line.fileno()])
        control.sendmsg([b"."], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])


def _open_fork_server() -> socket.socket:
    global _fork_server
    if _fork_server is None or _fork_server[0].poll() is not None:
        if _fork_server is not None:
            _fork_server[1].close()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            process = subprocess.Popen(
                # No site packages: a shim needs none, and starts in half the time.
                [sys.executable, "-E", "-S", "-m", "workspaces.shim", "--fork-server", REDACTION],
                stdin=theirs,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                env={"PATH": os.defpath},
                cwd=PROJECT,
            )
        reap_in_background(process)
        _fork_server = process, ours
    return _fork_server[1]
