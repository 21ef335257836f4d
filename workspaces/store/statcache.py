"""The stat cache: what each folder of a tree looked like at its last snapshot, so that unchanged files are not read.

It is a cache: a damaged, foreign or outdated one is ignored and everything is read again.
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

_MAGIC = b"HC\x01\n"
# Any change of mode, owner or link count moves ctime too.
stat_key = attrgetter("st_ino", "st_size", "st_mtime_ns", "st_ctime_ns")
KEY = struct.Struct("<QQqq")
_packers: dict[int, struct.Struct] = {}


def pack_keys(stats: list[os.stat_result]) -> bytes:
    """Pack the stat keys of a folder's entries, one after the other."""
    packer = _packers.get(len(stats))
    if packer is None:
        packer = _packers.setdefault(len(stats), struct.Struct("<" + "QQqq" * len(stats)))
    return packer.pack(*chain.from_iterable(map(stat_key, stats)))


class CachedFolder(NamedTuple):
    """A folder as it was: names joined by NUL in the order of the directory, keys in the same order."""

    tree: bytes
    names: str
    keys: bytes
    folders: list[str]
    linked: list[tuple[str, int, bytes]]  # name, inode, group of each file with more than one link
    skipped: list[tuple[str, str]]  # name and reason
    entries: int
    bytes: int

    def key_of_each(self) -> dict[str, bytes]:
        keys = [self.keys[at : at + KEY.size] for at in range(0, len(self.keys), KEY.size)]
        return dict(zip(self.names.split("\0"), keys, strict=True)) if keys else {}


class StatCache:
    """The folders of one tree by path, all from one scan; `stamp` says for which store, path and root they hold."""

    def __init__(self, path: Path, stamp: tuple):
        self.path, self.stamp = path, stamp
        self.folders: dict[str, CachedFolder] = {}
        self._read()

    def _read(self) -> None:
        try:
            data = self.path.read_bytes()
        except OSError:
            return
        if data[:4] != _MAGIC or blake3(memoryview(data)[36:]).digest() != data[4:36]:
            return
        # The checksum held, so marshal only sees what this program wrote.
        stamp, folders = marshal.loads(memoryview(data)[36:])
        if stamp == self.stamp:
            self.folders = {path: CachedFolder(*fields) for path, fields in folders.items()}

    def write(self, folders: Iterable[tuple[str, CachedFolder]]) -> None:
        """Replace the cache. Not flushed: a torn one does not match its checksum and is ignored."""
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
