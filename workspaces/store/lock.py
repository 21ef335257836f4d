"""Locks of a store in a folder: one writer at a time across threads and processes of this host, and kept trees."""

import fcntl
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .errors import Cancelled, StoreError

WAIT_SECONDS = 600.0
_POLL_SECONDS = 0.02


@contextmanager
def writing(store: Path, *, wait: float = WAIT_SECONDS, cancel: threading.Event | None = None) -> Iterator[None]:
    """Hold the store's writer lock; the kernel releases it when the process dies.

    Raise StoreError if it is not acquired within `wait` seconds, Cancelled once `cancel` is set.
    """
    # Each call opens its own file description, so flock excludes other threads as well as other processes.
    fd = os.open(store / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        deadline = time.monotonic() + wait
        while not _taken(fd):
            if cancel is not None and cancel.is_set():
                raise Cancelled("cancelled while waiting for another writer")
            if time.monotonic() >= deadline:
                raise StoreError(f"another process has locked the store for {wait:.0f} seconds; try again later")
            time.sleep(_POLL_SECONDS)
        yield
    finally:
        os.close(fd)


@contextmanager
def flocked(path: Path, how: int) -> Iterator[None]:
    """Hold a lock (fcntl.LOCK_SH or LOCK_EX) on a file or folder; wait for those who have it."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, how)
        yield
    finally:
        os.close(fd)


def is_flocked(path: Path) -> bool:
    """Return whether a process has a lock on the file."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return not _taken(fd)
    finally:
        os.close(fd)


def _taken(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
