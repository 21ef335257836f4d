"""Host processes for commands to come: started ahead, so that a command does not wait for a Python to start."""

import os
import subprocess
import sys
import threading
from pathlib import Path

from ..drivers.local import reap_in_background

PROJECT = Path(__file__).resolve().parents[2]

_lock = threading.Lock()
_spares: list[subprocess.Popen] = []
_wanted = 0


def keep_spares(count: int) -> None:
    """Have `count` host processes waiting from now on; 0 ends them. They end with us, too: nothing was claimed yet."""
    global _wanted
    with _lock:
        _wanted = count
        surplus = [_spares.pop() for _ in range(len(_spares) - count)]
    for host in surplus:
        host.stdin.close()
    _refill()


def spawn(folder: Path, handed: bytes = b"") -> subprocess.Popen:
    """Give `folder` to a host process of its own, which outlives us, and through a pipe what is written nowhere."""
    while True:
        with _lock:
            spare = bool(_spares)
            host = _spares.pop() if spare else _start()
        try:
            with host.stdin as stdin:
                stdin.write(os.fsencode(folder.resolve()) + b"\n" + handed)
            break
        except BrokenPipeError:
            if not spare:
                break  # it is dead at birth, as the caller will see
    threading.Thread(target=_refill, daemon=True).start()
    return host


def _refill() -> None:
    with _lock:
        while len(_spares) < _wanted:
            _spares.append(_start())


def _start() -> subprocess.Popen:
    host = subprocess.Popen(
        # No site packages: a host needs none, and starts in half the time.
        [sys.executable, "-E", "-S", "-m", "workspaces.hosts"],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        env={"PATH": os.defpath},
        cwd=PROJECT,
    )
    reap_in_background(host)
    return host
