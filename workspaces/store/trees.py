"""A live tree: a folder on this host, opened once and then only reached through its descriptor."""

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .beneath import open_root
from .errors import StoreError

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


class LocalTree:
    """A folder on this host. `cache` is the file of its stat cache; the store finds one by itself if it is None."""

    def __init__(self, path: str | bytes | os.PathLike, cache: str | os.PathLike | None = None):
        self.path = Path(os.fsdecode(path))
        self.cache = Path(cache) if cache is not None else None

    @contextmanager
    def opened(self) -> Iterator[int]:
        """Give the descriptor of the root."""
        try:
            fd = open_root(self.path)
        except FileNotFoundError as error:
            raise StoreError(f"there is no folder {self.path}") from error
        except NotADirectoryError as error:
            raise StoreError(f"{self.path} is not a folder") from error
        except PermissionError as error:
            raise StoreError(f"{self.path} may not be read") from error
        try:
            yield fd
        finally:
            os.close(fd)


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
