"""What the store asks of a file system: syncs, whether its ctime can be trusted, and the holes of sparse files.

Runs inside guests too, so it uses the standard library only.
"""

import ctypes
import errno
import os

# File systems known to update ctime at the first store through a shared mapping after a sync.
_TRUSTED_CTIME = {
    0xEF53: "ext4",
    0x58465342: "xfs",
    0x9123683E: "btrfs",
    0x2FC12FC1: "zfs",
    0xF2F52010: "f2fs",
    0xCA451A4E: "bcachefs",
}
_libc = ctypes.CDLL(None, use_errno=True)


def sync_tree(fd: int) -> None:
    """Sync the whole file system (syncfs), so that mapped pages are clean and the next store to one updates ctime."""
    if _libc.syncfs(fd) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def is_ctime_trusted(fd: int) -> bool:
    """Return True if, on this file system, an unchanged ctime after a sync proves that a file is unchanged."""
    buffer = ctypes.create_string_buffer(256)
    if _libc.fstatfs(fd, buffer) != 0:
        return False
    return ctypes.c_long.from_buffer(buffer).value & 0xFFFFFFFF in _TRUSTED_CTIME


def extents(fd: int, found: os.stat_result) -> list[tuple[int, int, bool]]:
    """Return (start, end, is data) of each extent and hole of a file, in order; offsets in bytes."""
    size = found.st_size
    if found.st_blocks * 512 >= size:
        return [(0, size, True)]
    runs, at = [], 0
    while at < size:
        try:
            start = min(os.lseek(fd, at, os.SEEK_DATA), size)
        except OSError as error:
            if error.errno != errno.ENXIO:
                raise
            start = size  # a hole up to the end of the file
        if start > at:
            runs.append((at, start, False))
        at = start
        if start < size:
            at = min(os.lseek(fd, start, os.SEEK_HOLE), size)
            runs.append((start, at, True))
    return runs
