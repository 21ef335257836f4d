"""A shim's part in going on with a program whose host is lost: all that it has printed is recorded here once more.

What it had printed by then has the time of the adoption in the recording.
"""

import fcntl
import os
import select
import struct
import termios
import time
from datetime import datetime

from workspaces.drivers.init_client import InitGone, Kept, Started

REPLAY_S = 60.0  # how long a pod may take to send a next piece of what it has kept
CHUNK_BYTES = 1 << 17


def seconds_since(began_at: str) -> float:
    """Return the seconds since a time (RFC 3339; "": now), by the clocks of two hosts."""
    return max(0.0, time.time() - datetime.fromisoformat(began_at).timestamp()) if began_at else 0.0


def adopt(shim) -> Started:
    """Adopt the program of the shim's spec and record what it has printed; return once that is done.

    Raise InitRefused if its pod has not kept it, InitGone if the pod does not answer or its output breaks off.
    """
    spec = shim.spec
    how = {"stdio": "pty" if spec.pty else "pipe", "cols": spec.cols, "rows": spec.rows}
    program, kept = shim.init.adopt_kept(spec.kept_as, **how)
    if spec.pty:
        shim.recorder.resized(spec.cols, spec.rows)
    _record(shim, program.fd, kept)
    if kept.sizes:
        shim.size = kept.sizes[-1][1:]
        fcntl.ioctl(program.fd, termios.TIOCSWINSZ, struct.pack("HHHH", *shim.size[::-1], 0, 0))
    shim.viewers.keyboard.go_on(shim.recorder.total)
    return program


def _record(shim, fd: int, kept: Kept) -> None:
    sizes = list(kept.sizes)
    at = _after_a_cut_value(shim, fd, kept)
    while True:
        while sizes and sizes[0][0] <= at:
            shim.recorder.resized(*sizes.pop(0)[1:])
        if at == kept.total:
            return
        until = min(kept.total, sizes[0][0]) if sizes else kept.total
        data = _read(fd, min(CHUNK_BYTES, until - at))
        shim.record(data)
        at += len(data)


def _after_a_cut_value(shim, fd: int, kept: Kept) -> int:
    """Return the offset from which the output can be recorded: behind what may be the end of a secret value.

    Nothing is left out of an output that was kept from its beginning. The redactor gets what is left out, since a value
    may begin there.
    """
    at = until = kept.start
    if kept.start and shim.redactor is not None:
        until = min(kept.total, kept.start + 2 * shim.redactor.longest)
    while at < until:
        data = _read(fd, until - at)
        shim.redactor.feed(data)
        at += len(data)
    shim.recorder.skip(at)
    return at


def _read(fd: int, size: int) -> bytes:
    """Read up to `size` bytes. Raise InitGone at the end, or if there is nothing in time."""
    try:
        if select.select([fd], [], [], REPLAY_S)[0] and (data := os.read(fd, size)):
            return data
    except OSError as error:  # of a terminal that was closed
        raise InitGone("What it printed breaks off.") from error
    raise InitGone("What it printed breaks off.")
