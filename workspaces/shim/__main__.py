"""`python -m workspaces.shim FOLDER`: run the program of FOLDER/spec.json, once.

`--fork-server PACKAGES`: be the fork server of pool.py, which forks a shim for each request on standard input, a
socket. The task on the socket passed with a request is the folder's path in the first line, followed by the JSON of
`Handed`. PACKAGES is the folder of the package that redacts output.
"""

import gc
import os
import signal
import socket
import sys
from collections.abc import Callable
from pathlib import Path

from .record import Handed
from .shim import main


def serve(folder: Path, handed: Handed, notify: Callable[[], None] = lambda: None) -> None:
    log = os.open(folder / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    null = os.open(os.devnull, os.O_RDONLY)
    for target, source in ((0, null), (1, log), (2, log)):
        os.dup2(source, target)
    main(folder, handed, notify)


def _load_redaction(packages: str) -> None:
    """Import what a shim with secrets needs, which most have: each fork would load it anew."""
    import ctypes  # noqa: F401

    sys.path.append(packages)
    from . import redact  # noqa: F401


def fork_for_each_request(control: socket.socket, packages: str) -> None:
    _load_redaction(packages)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # let the kernel reap the shims
    gc.freeze()  # keep imported modules in pages shared with the forks
    while True:
        data, lines, _flags, _address = socket.recv_fds(control, 1, 1)
        if not data:
            return
        for line in (socket.socket(fileno=fd) for fd in lines):
            try:
                is_shim = os.fork() == 0
            except OSError:  # no memory or process left on this host; the requester reads EOF
                is_shim = False
            if is_shim:
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                control.detach()  # standard input, which `serve` closes
                os.setsid()
                be_shim(line)
                return
            line.close()


def be_shim(line: socket.socket) -> None:
    os.set_inheritable(line.fileno(), False)
    line.sendall(b".")
    with line.makefile("rb") as task:
        folder = Path(os.fsdecode(task.readline()[:-1]))
        handed = Handed.from_json(task.read())
    line.setblocking(False)

    def notify():
        try:
            line.send(b".")
        except OSError:
            pass  # the requester is gone

    serve(folder, handed, notify)


if len(sys.argv) == 2:
    serve(Path(sys.argv[1]), Handed())
elif sys.argv[1:2] == ["--fork-server"]:
    fork_for_each_request(socket.socket(fileno=0), sys.argv[2])
else:
    raise SystemExit(__doc__)
