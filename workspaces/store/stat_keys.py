"""The stat keys of a folder's entries, and what is known of a folder by them.

Runs inside guests too, so it uses the standard library only.
"""

import os
import struct
from itertools import chain
from operator import attrgetter
from typing import NamedTuple

from .folded import fold

# A change of mode, owner or link count updates ctime too.
stat_key = attrgetter("st_ino", "st_size", "st_mtime_ns", "st_ctime_ns")
KEY = struct.Struct("<QQqq")
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


def list_folder(fd: int) -> tuple[list[os.DirEntry], str, bytes]:
    """Return the entries of an open folder, their names joined by NUL, and their packed stat keys."""
    with os.scandir(fd) as listing:
        entries = list(listing)
    try:
        stats = [entry.stat(follow_symlinks=False) for entry in entries]
    except FileNotFoundError:
        entries = [entry for entry in entries if _still_there(entry)]
        stats = [entry.stat(follow_symlinks=False) for entry in entries]
    return entries, "\0".join([entry.name for entry in entries]), pack_keys(stats)


def _still_there(entry: os.DirEntry) -> bool:
    try:
        entry.stat(follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


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
