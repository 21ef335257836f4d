"""Let a new file share the blocks of a live one with the same bytes, where the file system has reflinks.

What is shared nobody can change for the other: the file system copies a block when either file is written. The live
file is proved to have the bytes by its stat, as the next snapshot of its tree would; see `stat_cache`.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING

from .errors import StoreError
from .objects import TORN, Entry, Folder
from .safe_open import open_beneath
from .stat_keys import CachedFolder, pack_keys

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .stat_cache import StatCache
    from .tree import LocalLive, LocalTree

LEAST = 4096  # bytes: a smaller file has no block to share
_CLONE = 0x40049409  # FICLONE
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW


def clone(source: int, target: int) -> bool:
    """Let an empty file share the blocks of another. Return False without reflinks, or not between these two."""
    try:
        fcntl.ioctl(target, _CLONE, source)
    except OSError:
        return False
    return True


@contextmanager
def lending(
    tree: LocalTree | None, known: Callable[[LocalLive], StatCache], read: Callable[[bytes], Folder]
) -> Iterator[Lender | None]:
    """Open a tree as a lender; None without one, or if it is gone or its times prove nothing.

    `known` returns the stat cache of the open tree.
    """
    with ExitStack() as stack:
        lender = None
        with suppress(StoreError):
            live = stack.enter_context(tree.opened()) if tree is not None else None
            if live is not None and live.is_ctime_trusted():
                lender = Lender(live.root, known(live), read)
        yield lender


class Lender:
    """The open live tree `root`, of which `cache` knows the files of its last snapshot. For one thread.

    `read` returns a stored folder by its id.
    """

    def __init__(self, root: int, cache: StatCache, read: Callable[[bytes], Folder]):
        self._root, self._folders, self._read = root, cache.folders, read
        self._known: dict[str, dict[bytes, tuple[Entry, bytes]]] = {}
        self.can_share = bool(self._folders)
        self.shared = 0  # bytes

    def lend(self, path: bytes, entry: Entry, fd: int) -> bool:
        """Give a new file the bytes of an entry by sharing those of the file at `path`. Return False if it cannot.

        The new file is empty then.
        """
        if not self.can_share or entry.size < LEAST or (key := self._key(path, entry)) is None:
            return False
        try:
            source = open_beneath(self._root, path, _READ)
        except OSError:
            return False
        try:
            if pack_keys([os.fstat(source)]) != key:
                return False
            if not clone(source, fd):
                self.can_share = False
                return False
            if pack_keys([os.fstat(source)]) != key:  # it was changed meanwhile
                os.ftruncate(fd, 0)
                return False
        finally:
            os.close(source)
        self.shared += entry.size
        return True

    def _key(self, path: bytes, entry: Entry) -> bytes | None:
        """Return the stat key that the file at `path` had when its content was the entry's; None if it was not."""
        above, _, name = path.rpartition(b"/")
        folder = os.fsdecode(above)
        known = self._known.get(folder)
        if known is None:
            known = self._known[folder] = self._files(self._folders.get(folder))
        found, key = known.get(name, (None, b""))
        is_it = found is not None and (found.content, found.size) == (entry.content, entry.size)
        return key if is_it and not (found.flags | entry.flags) & TORN else None

    def _files(self, cached: CachedFolder | None) -> dict[bytes, tuple[Entry, bytes]]:
        """Return {name: (entry, stat key)}; nothing of a folder that a garbage collection has removed meanwhile."""
        try:
            folder = self._read(cached.tree) if cached else ()
        except StoreError:
            return {}
        keys = cached.key_of_each() if cached else {}
        entries = (entry for entry in folder if entry.size >= LEAST)
        return {one.name: (one, keys[name]) for one in entries if (name := os.fsdecode(one.name)) in keys}
