"""Lock files between processes. The kernel releases a lock when the last process that holds it dies.

The store has its own in workspaces/store/lock.py, as it does not import this package.
"""

import fcntl
import os
import time
from pathlib import Path

POLL_SECONDS = 0.02


def take_lock(path: Path, *, wait: float | None = None, shared: bool = False) -> int:
    """Return the descriptor that holds the lock; raise BlockingIOError after `wait` seconds (None: wait forever)."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        _lock(fd, fcntl.LOCK_SH if shared else fcntl.LOCK_EX, wait)
    except BaseException:
        os.close(fd)
        raise
    return fd


def is_locked(path: Path) -> bool:
    """Return True while the lock is held. Tests with a shared lock, so that two callers do not see each other."""
    try:
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False


def _lock(fd: int, kind: int, wait: float | None) -> None:
    if wait is None:
        fcntl.flock(fd, kind)
        return
    deadline = time.monotonic() + wait
    while True:
        try:
            fcntl.flock(fd, kind | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() >= deadline:
                raise
            time.sleep(POLL_SECONDS)
