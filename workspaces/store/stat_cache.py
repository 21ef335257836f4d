"""The stat cache: the stat keys of each folder at the last snapshot, so that unchanged files are not read again.

A damaged, foreign or outdated cache is ignored, and every file is read.
"""

import marshal
import os
import struct
from collections.abc import Iterable
from itertools import chain
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

from blake3 import blake3

from .folded import fold

_MAGIC = b"HC\x01\n"
# A change of mode, owner or link count updates ctime too.
stat_key = attrgetter("st_ino", "st_size", "st_mtime_ns", "st_ctime_ns")
KEY = struct.Struct("<QQqq")
LARGE = 2000  # folders; the cache of a smaller tree is written at each change
FEW_FOLDERS, FEW_BYTES = 16, 4 << 20  # what differs from a large one is found again until it is more than this
_packers: dict[int, struct.Struct] = {}


def pack_keys(stats: list[os.stat_result]) -> bytes:
    """Return the packed stat keys of a folder's entries, concatenated, with folded times."""
    packer = _packers.get(len(stats))
    if packer is None:
        packer = _packers.setdefault(len(stats), struct.Struct("<" + "QQqq" * len(stats)))
    try:
        return packer.pack(*chain.from_iterable(map(stat_key, stats)))
    except struct.error:
        keys = [(found.st_ino, found.st_size, fold(found.st_mtime_ns), fold(found.st_ctime_ns)) for found in stats]
        return packer.pack(*chain.from_iterable(keys))


class CachedFolder(NamedTuple):
    """A folder at its last snapshot: `names` joined by NUL in directory order, `keys` in the same order."""

    tree: bytes
    names: str
    keys: bytes
    folders: list[str]
    linked: list[tuple[str, int, bytes]]  # name, inode and group of each hard-linked file
    skipped: list[tuple[str, str]]  # name and reason
    entries: int
    bytes: int

    def key_of_each(self) -> dict[str, bytes]:
        keys = [self.keys[at : at + KEY.size] for at in range(0, len(self.keys), KEY.size)]
        return dict(zip(self.names.split("\0"), keys, strict=True)) if keys else {}


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
