"""What makes files last: flushes, whole files put in place at once, and what a file system's times are worth.

Runs inside guests too, so it needs nothing but Python.
"""

import ctypes
import os
import resource
import sys
from pathlib import Path

# File systems of which it is known that a sync makes the next store through a mapping move ctime.
_TIMED = {
    0xEF53: "ext4",
    0x58465342: "xfs",
    0x9123683E: "btrfs",
    0x2FC12FC1: "zfs",
    0xF2F52010: "f2fs",
    0xCA451A4E: "bcachefs",
}
_libc = ctypes.CDLL(None, use_errno=True)


DEEP = 100  # from here on room is made
MAX_DEPTH = 2000  # folders below each other: about as deep as a path of 4,095 bytes can name


def make_room_for_depth() -> None:
    """Let this process go MAX_DEPTH folders deep: a few Python frames and one descriptor for each."""
    # Frames of Python functions are not on the C stack (from 3.11 on), so the limit can be raised without risk.
    sys.setrecursionlimit(max(sys.getrecursionlimit(), 1000 + 8 * MAX_DEPTH))
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MAX_DEPTH + 1000 if hard == resource.RLIM_INFINITY else min(hard, MAX_DEPTH + 1000)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def make_room_at(path: bytes) -> None:
    """Make room once a walk has come to a depth that few trees have."""
    if path.count(b"/") == DEEP:
        make_room_for_depth()


def flush_folder(path: Path) -> None:
    """Make the names in a folder durable."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def replace_file(path: Path, data: bytes) -> None:
    """Put a whole file in place at once and for good."""
    staged = path.with_name(f"{path.name}.{os.urandom(16).hex()}.new")
    try:
        with open(staged, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.rename(staged, path)
    except BaseException:
        staged.unlink(missing_ok=True)
        raise
    flush_folder(path.parent)


def times_tell(fd: int) -> bool:
    """Whether an unchanged ctime after a sync proves that a file on this file system is unchanged."""
    buffer = ctypes.create_string_buffer(256)
    if _libc.fstatfs(fd, buffer) != 0:
        return False
    return ctypes.c_long.from_buffer(buffer).value & 0xFFFFFFFF in _TIMED


def sync_tree(fd: int) -> None:
    """Write the whole file system out, so that mapped pages are clean and the next store moves the times."""
    if _libc.syncfs(fd) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
