"""The stat cache: the stat keys of each folder at the last snapshot, so that unchanged files are not read again.

A damaged, foreign or outdated cache is ignored, and every file is read.
"""

import marshal
import os
from collections.abc import Iterable
from pathlib import Path

from blake3 import blake3

from .stat_keys import CachedFolder

_MAGIC = b"HC\x01\n"
LARGE = 2000  # folders; the cache of a smaller tree is written at each change
FEW_FOLDERS, FEW_BYTES = 16, 4 << 20  # what differs from a large one is found again until it is more than this


class StatCache:
    """The cached folders of one tree by path, from one scan; `stamp` identifies the store, path and root inode."""

    def __init__(self, path: Path, stamp: tuple, folders: dict[str, CachedFolder] | None = None):
        """Read the file, unless the folders are known already."""
        self.path, self.stamp = path, stamp
        self.folders: dict[str, CachedFolder] = folders if folders is not None else {}
        if folders is None:
            self._read()

    def _read(self) -> None:
        try:
            data = self.path.read_bytes()
        except OSError:
            return
        if data[:4] != _MAGIC or blake3(memoryview(data)[36:]).digest() != data[4:36]:
            return
        # The checksum matched, so marshal only parses data that this program wrote.
        stamp, folders = marshal.loads(memoryview(data)[36:])
        if stamp == self.stamp:
            self.folders = {path: CachedFolder(*fields) for path, fields in folders.items()}

    def is_outdated(self, scanned_folders: int, read_bytes: int) -> bool:
        """Return whether a new cache is worth its writing: the next scan finds a few changes again, and is as right."""
        few = scanned_folders <= FEW_FOLDERS and read_bytes <= FEW_BYTES
        return not few or len(self.folders) < LARGE

    def write(self, folders: Iterable[tuple[str, CachedFolder]]) -> None:
        """Replace the cache file. No fsync: a torn file fails its checksum and is ignored."""
        body = marshal.dumps((self.stamp, {path: tuple(found) for path, found in folders}), 4)
        staged = self.path.with_name(f"{self.path.name}.{os.urandom(16).hex()}.new")
        self.path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with open(os.open(staged, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as file:
                file.write(_MAGIC + blake3(body).digest())
                file.write(body)
            os.rename(staged, self.path)
        except BaseException:
            staged.unlink(missing_ok=True)
            raise
