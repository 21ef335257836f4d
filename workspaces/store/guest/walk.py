"""List the folders of a tree for the host: all of them, or those that may have changed.

Runs inside guests, so it uses the standard library only.
"""

from __future__ import annotations

import errno
import os
import stat
from array import array
from typing import TYPE_CHECKING

from ..errors import name_the_path
from ..node import Node
from ..safe_open import open_beneath
from ..stat_keys import CachedFolder, list_folder
from ..watch.listing import Listing
from ..watch.watched import BASELINE, WATCHED
from .protocol import AS_BEFORE, FOLDER_ITEM, GONE, KEPT_OUT, KEY_BYTES, READ, Stat

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..watch import Hints, Watched

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
_GONE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)  # or no folder any more; what cannot be opened is still there


class Walk:
    """One pass over all folders below the open folder `root`, whose file system is `device`."""

    def __init__(self, root: int, device: int):
        self.root, self.device = root, device

    def items(self) -> Iterator[tuple[bytes, int]]:
        """Yield each folder as the host is told it, and its inode, 0 for one that could not be listed."""
        stack = [""]
        while stack:
            path = stack.pop()
            with _opened(self.root, path) as fd:
                if isinstance(fd, OSError):
                    yield _unread(path, fd), 0
                    continue
                try:
                    entries, *_ = list_folder(fd)
                    item = self._item(path, entries, fd)
                except PermissionError as error:  # it can be listed but not entered
                    yield _unread(path, error), 0
                    continue
                stack += [_join(path, entry.name) for entry in self._folders(entries)]
                yield item, os.fstat(fd).st_ino

    def _item(self, path: str, entries: list[os.DirEntry], fd: int) -> bytes:
        names, keys, rest = [], [], []
        for entry in entries:
            try:
                packed = Stat.of(entry.stat(follow_symlinks=False), self.device).pack()
            except Exception as error:
                name_the_path(error, _join(path, entry.name))
                raise
            names.append(os.fsencode(entry.name))
            keys.append(packed[:KEY_BYTES])
            rest.append(packed[KEY_BYTES:])
        return _item(READ, path, b"\0".join(names), b"".join(keys), b"".join(rest), encoded_xattrs(fd))

    def _folders(self, entries: list[os.DirEntry]) -> Iterator[os.DirEntry]:
        for entry in entries:
            found = entry.stat(follow_symlinks=False)
            if stat.S_ISDIR(found.st_mode) and found.st_dev == self.device:
                yield entry


class WatchedWalk(Walk):
    """One pass by hints, which is a scan for `Watched`: it marks and asks what it lists.

    A vouched folder that is not dirty is told as it was, and only those below it are entered that lead to dirty ones.
    If one of these is not what it was, the folder above is listed as well, at whatever place among the others.
    """

    def __init__(self, root: int, device: int, watched: Watched, hints: Hints):
        super().__init__(root, device)
        self.watched, self.hints = watched, hints
        self.listing = Listing(watched, hints, device)
        self.named: list[str] = []  # folders that the host found to differ
        self._trusts = hints.mode == WATCHED
        self._nodes: dict[str, Node] = {}
        self._entered: dict[str, list[str]] = {}  # names of the folders below each node that were to be visited
        self._vouched: set[str] = set()
        self._forced: set[str] = set()  # folders to list because of what is below them
        self._stack: list[str] = []

    def items(self) -> Iterator[tuple[bytes, int]]:
        self._stack = [""]
        while self._stack:
            path = self._stack.pop()
            with _opened(self.root, path) as fd:
                if isinstance(fd, OSError):
                    self._list_above(path)
                    if not isinstance(fd, PermissionError):  # whose end would be an event
                        self.listing.unmarked.add(path.rpartition("/")[0])
                    yield _unread(path, fd), 0
                    continue
                try:
                    yield self._visit(path, fd), os.fstat(fd).st_ino
                except PermissionError as error:
                    self._list_above(path)
                    self._nodes.pop(path, None)
                    yield _unread(path, error), 0

    def _visit(self, path: str, fd: int) -> bytes:
        inode, above = os.fstat(fd).st_ino, path.rpartition("/")[0]
        is_known = self.hints.mode != BASELINE and self.watched.inode_of.get(path) == inode
        is_vouched = is_known and (not path or above in self._vouched)
        (self._vouched.add if is_vouched else self._vouched.discard)(path)
        if not is_vouched:
            self._list_above(path)
        if is_vouched and self._trusts and path not in self.hints.dirty and path not in self._forced:
            return self._as_before(path, fd, inode)
        known = {}
        if is_vouched and path not in self.watched.unmarked:
            known = self.watched.folders[path].key_of_each()
        entries, names, keys = self.listing.list_folder(fd, path, known)
        item = self._item(path, entries, fd)
        node = self._node(path, inode, is_vouched)
        node.names, node.keys = names, keys
        node.inodes = array("Q", [entry.inode() for entry in entries])
        for entry in self._folders(entries):
            below = _join(path, entry.name)
            is_same = is_vouched and self.watched.inode_of.get(below) == entry.inode()
            self._enter_or_keep(node, entry.name, self._trusts and is_same and not self._is_due(below))
        return item

    def _as_before(self, path: str, fd: int, inode: int) -> bytes:
        node = self._node(path, inode, True)
        for name in node.old.folders:
            self._enter_or_keep(node, name, not self._is_due(_join(path, name)))
        return _item(AS_BEFORE, path, b"", b"", b"", encoded_xattrs(fd))

    def _node(self, path: str, inode: int, is_vouched: bool) -> Node:
        node = self._nodes[path] = Node(path, self.watched.folders[path] if is_vouched else None)
        node.inode = inode
        self._entered[path] = []
        return node

    def _enter_or_keep(self, node: Node, name: str, keeps: bool) -> None:
        if keeps:
            node.kept.append(name)
        else:
            self._entered[node.path].append(name)
            self._stack.append(_join(node.path, name))

    def _is_due(self, path: str) -> bool:
        return path in self.hints.dirty or path in self.hints.below

    def _list_above(self, path: str) -> None:
        """List the folder above one that is not as it was, if it was told as it was."""
        above = path.rpartition("/")[0]
        node = self._nodes.get(above) if path else None
        if node is not None and node.inodes is None and above not in self._forced:
            self._forced.add(above)
            self._stack.append(above)

    # -- as a scan, for `Watched.settle` -----------------------------------------------------------------------------

    @property
    def unmarked(self) -> set[str]:
        return self.listing.unmarked

    def nodes(self) -> Iterator[Node]:
        stack = [""]
        while stack:
            path = stack.pop()
            node = self._nodes[path]
            below = [(name, self._nodes.get(_join(path, name))) for name in self._entered[path]]
            node.children = [(name, child) for name, child in below if child is not None]
            stack += [child.path for _, child in node.children]
            yield node

    def cached(self, node: Node) -> CachedFolder:
        if node.inodes is None:
            return node.old
        names = [*(name for name, _ in node.children), *node.kept]
        return CachedFolder(b"", node.names, node.keys, names, [], [], 0, 0)

    def differing(self, folders: dict[str, CachedFolder]) -> list[str]:
        return self.named


class _opened:
    """`with _opened(root, path) as fd`: a folder below an open one, or the error that came instead."""

    def __init__(self, root: int, path: str):
        self._of = root, os.fsencode(path)
        self._fd = -1

    def __enter__(self) -> int | OSError:
        try:
            self._fd = open_beneath(*self._of, _FOLDER)
        except OSError as error:
            return error
        return self._fd

    def __exit__(self, *_) -> None:
        if self._fd >= 0:
            os.close(self._fd)


def encoded_xattrs(at: int | bytes) -> bytes:
    """Return the extended attributes in the store's encoding (objects.encode_xattrs)."""
    options = {} if isinstance(at, int) else {"follow_symlinks": False}
    try:
        names = os.listxattr(at, **options)
        pairs = [(os.fsencode(name), os.getxattr(at, name, **options)) for name in names]
    except OSError:
        return b""
    return b"".join(
        len(name).to_bytes(2, "little") + len(value).to_bytes(4, "little") + name + value
        for name, value in sorted(pairs)
    )


def _unread(path: str, error: OSError) -> bytes:
    return _item(GONE if error.errno in _GONE else KEPT_OUT, path)


def _item(status: int, path: str, *parts: bytes) -> bytes:
    raw, parts = os.fsencode(path), parts or (b"",) * 4
    return FOLDER_ITEM.pack(status, len(raw), *map(len, parts)) + raw + b"".join(parts)


def _join(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder else name
