"""The entries of a snapshot by path, as a mounted folder needs them: found fast, read in pieces, and never changed."""

from __future__ import annotations

import errno
import os
import sys
import threading
from bisect import bisect_right
from collections import Counter, OrderedDict
from contextlib import contextmanager
from itertools import accumulate
from typing import TYPE_CHECKING

from blake3 import blake3

from ..content import pieces_of
from ..errors import StoreError
from ..objects import EMPTY, FILE, FOLDER, LISTED, XATTRS, Entry

if TYPE_CHECKING:
    from collections.abc import Iterator, Set

    from ..repository import Store
    from ..restore import Owner

INODES = (1 << 56) - 1  # the bits that inode numbers use
_MOST_ENTRIES = 200_000  # entries of folders that are kept decoded, some 100 MB
_MOST_LISTS = 256  # large files whose pieces are kept decoded


class SnapshotFolder:
    """Entries of one tree. What a restore would not make (unreadable and ignored files, sockets) does not appear.

    With `owner` (uid, gid), what belonged to the owner of the snapshot's root belongs to that owner, as in a restore.
    The paths in `hidden` (relative to the root) do not appear either.
    Methods raise OSError as a file system does: ENOENT, ENOTDIR, and EIO where the store is damaged. Thread-safe.
    """

    def __init__(self, store: Store, tree_id: str, owner: Owner | None = None, hidden: Set[bytes] = frozenset()):
        self._catalog, self._hidden = store.catalog, hidden
        root = store.root(tree_id)
        self._moved = (root.uid, root.gid, *owner) if owner else None
        self.root = self._owned(root)
        self._folders: OrderedDict[bytes, dict[bytes, Entry]] = OrderedDict()
        self._entries = 0
        self._lists: OrderedDict[bytes, tuple[list, list]] = OrderedDict()
        self._survey: tuple[Counter[bytes], bool] | None = None
        self._lock = threading.Lock()

    def entry(self, path: bytes) -> Entry:
        """Return the entry at an absolute path below the root of the mount (`/` is the root)."""
        if path == b"/":
            return self.root
        above, _, name = path.rpartition(b"/")
        found = self._folder(above or b"/").get(name)
        if found is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        return found

    def entries(self, path: bytes) -> dict[bytes, Entry]:
        """Return {name: entry} of a folder, in byte order of the names."""
        return self._folder(path)

    def read(self, path: bytes, size: int, offset: int) -> bytes:
        """Return up to `size` bytes of a file from `offset`; fewer only at its end."""
        entry = self.entry(path)
        if entry.kind != FILE:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        if offset >= entry.size or entry.content == EMPTY:
            return b""
        with _failing():
            if not entry.flags & LISTED:
                return self._catalog.blob(entry.content)[offset : offset + size]
            return self._read_pieces(entry, min(size, entry.size - offset), offset)

    def links(self, entry: Entry) -> int:
        """Return how many names an entry has in the tree."""
        if not entry.link:
            return 1
        return max(1, self._surveyed()[0][entry.link])

    def has_xattrs(self) -> bool:
        """Return whether any entry of the tree has extended attributes."""
        return self._surveyed()[1]

    def inode(self, path: bytes, entry: Entry) -> int:
        """Return a number that is the same for all names of a file, and for each later mount of the tree.

        Of its 64 bits 8 are free: an overlay needs some to tell its layers apart.
        """
        return int.from_bytes((entry.link or blake3(path).digest(7))[:7], "little") & INODES or 1

    def _folder(self, path: bytes) -> dict[bytes, Entry]:
        found = self._folders.get(path)
        if found is not None:
            return found
        entry = self.entry(path)
        if entry.kind != FOLDER:
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
        with _failing():
            found = {each.name: self._owned(each) for each in self._catalog.folder(entry.content) if each.kept}
        if self._hidden:
            above = path[1:] + b"/" if path != b"/" else b""
            found = {name: each for name, each in found.items() if above + name not in self._hidden}
        with self._lock:
            if self._folders.setdefault(path, found) is found:
                self._entries += len(found) + 1
            while self._entries > _MOST_ENTRIES and len(self._folders) > 1:
                self._entries -= len(self._folders.popitem(last=False)[1]) + 1
        return found

    def _owned(self, entry: Entry) -> Entry:
        if self._moved is None:
            return entry
        uid, gid, new_uid, new_gid = self._moved
        return entry._replace(
            uid=new_uid if entry.uid == uid else entry.uid, gid=new_gid if entry.gid == gid else entry.gid
        )

    def _read_pieces(self, entry: Entry, size: int, offset: int) -> bytes:
        pieces, starts = self._pieces(entry)
        parts, end = [], offset + size
        for index in range(bisect_right(starts, offset) - 1, len(pieces)):
            if starts[index] >= end:
                break
            length, content = pieces[index]
            start, stop = max(offset - starts[index], 0), min(end - starts[index], length)
            parts.append(bytes(stop - start) if content is None else self._catalog.blob(content)[start:stop])
        return b"".join(parts)

    def _pieces(self, entry: Entry) -> tuple[list, list]:
        """Return the pieces of a large file and the offset of each."""
        found = self._lists.get(entry.content)
        if found is None:
            pieces = pieces_of(self._catalog, entry)
            found = pieces, [0, *accumulate(length for length, _ in pieces)][:-1]
            with self._lock:
                self._lists[entry.content] = found
                if len(self._lists) > _MOST_LISTS:
                    self._lists.popitem(last=False)
        return found

    def _surveyed(self) -> tuple[Counter[bytes], bool]:
        """Return how many names each group of hard links has, and whether there are extended attributes.

        All folders are read for it, once.
        """
        if self._survey is None:
            count, has_xattrs, stack = Counter(), XATTRS in self.root.extras, [self.root.content]
            with _failing():
                while stack:
                    for entry in self._catalog.folder(stack.pop()):
                        has_xattrs = has_xattrs or XATTRS in entry.extras
                        if entry.kind == FOLDER and entry.kept:
                            stack.append(entry.content)
                        elif entry.link and entry.kept:
                            count[entry.link] += 1
            self._survey = count, has_xattrs
        return self._survey


@contextmanager
def _failing() -> Iterator[None]:
    """Turn what the store raises into EIO, and write it to standard error: who reads the file sees only a number."""
    try:
        yield
    except StoreError as error:
        print(f"mount: {error}", file=sys.stderr, flush=True)
        raise OSError(errno.EIO, os.strerror(errno.EIO)) from error
