"""Scan a watched tree by hints: look at the folders that may have changed alone."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

from ..node import LookedAt, Node
from ..objects import FOLDER, LINK
from .watched import BASELINE, WATCHED

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..stat_keys import CachedFolder
    from .watched import Hints, Watched


class Hinted:
    """What a subclass of `Scan` does by `hints`, given as a base before it.

    A folder is vouched for if it has the path and the inode that it had at the last snapshot, and so have all above it.
    A vouched folder that is not dirty has the entries that it had, so it is neither listed nor opened.
    """

    def __init__(self, sink, cache, *, watched: Watched, hints: Hints, **options):
        super().__init__(sink, cache, **options)
        self.watched, self.hints = watched, hints

    def _prepare(self, root) -> None:
        super()._prepare(root)
        self._trusts = self.hints.mode == WATCHED
        self._vouched: set[str] = set()
        self.walked = self.named = 0  # entries that were looked at: in walked folders, in folders that were dirty

    def _inode(self, fd) -> int:
        """Return the inode of a folder that was entered."""
        raise NotImplementedError

    def _is_vouched(self, path: str, inode: int) -> bool:
        if self.hints.mode == BASELINE or self.watched.inode_of.get(path) != inode:
            return False
        return not path or path.rpartition("/")[0] in self._vouched

    def _visit(self, fd, path, twin, depth):
        inode = self._inode(fd)
        if self._is_vouched(path, inode):
            self._vouched.add(path)
            if self._trusts and path not in self.hints.dirty:
                node = self._unlisted(path)
                if self._recall(fd, node, twin, depth):
                    node.inode = inode
                    self._seal_early(node)
                    return node
        node = super()._visit(fd, path, twin, depth)
        node.inode = inode
        return node

    def _unlisted(self, path: str) -> Node:
        node = Node(path, self._cached[path])
        node.names, node.keys = node.old.names, node.old.keys
        return node

    def _note_listed(self, fd, node, entries) -> None:
        """Count the entries of a folder that was listed."""
        node.inodes = array("Q", [entry.inode() for entry in entries])
        if node.path in self._vouched and self._trusts:
            self.named += len(entries)
        else:
            self.walked += len(entries)

    def _recall(self, fd, node, twin, depth):
        if not self._trusts or node.path not in self._vouched:
            return super()._recall(fd, node, twin, depth)
        prefix = node.path + "/" if node.path else ""
        for name in node.old.folders:
            if not self._is_due(prefix + name):
                self._keep(node, name)
                continue
            try:
                below = self._enter(fd, name)
            except OSError:
                node.children.clear()
                node.kept.clear()
                return False
            try:
                node.children.append((name, self._visit(below, prefix + name, None, depth + 1)))
            finally:
                self._leave(below)
        self._recall_notes(node)
        return True

    def _is_due(self, path: str) -> bool:
        return path in self.hints.dirty or path in self.hints.below

    def _keep(self, node: Node, name: str) -> None:
        """Take over a folder below and all in it; what has hard links or skipped entries in it counts for the tree."""
        path = f"{node.path}/{name}" if node.path else name
        if path not in self.watched.notable:
            node.kept.append(name)
            return
        child = self._unlisted(path)
        child.inode = self.watched.inode_of[path]
        for below in child.old.folders:
            self._keep(child, below)
        self._recall_notes(child)
        node.children.append((name, child))

    def _row(self, fd, node, text, name, found, known, twin, depth):
        if known is not None and known.record[0] == FOLDER and self._trusts and node.path in self._vouched:
            path = f"{node.path}/{text}" if node.path else text
            if not self._is_due(path) and self.watched.inode_of.get(path) == found.st_ino:
                self._keep(node, text)
                return known, found, True
        return super()._row(fd, node, text, name, found, known, twin, depth)

    def looked_at(self) -> LookedAt:
        return LookedAt(self.walked, self.named)

    def remember(self) -> None:
        """Hand what was found to the watch; the stat cache is written by walks alone, an older one is as good."""
        if not self._trusts and self.cache is not None:
            self._write_cache()
        if missed := self.watched.settle(self.hints, self):
            self.watched.fail(missed)

    def forget(self) -> None:
        self.watched.undo(self.hints)

    # -- what was found --------------------------------------------------------------------------------------------

    @property
    def unmarked(self) -> set[str]:
        """Return the folders with an entry of which the kernel tells nothing."""
        return set()

    def nodes(self) -> Iterator[Node]:
        """Yield all folders that were visited or taken over one by one."""
        stack = [self._node]
        while stack:
            node = stack.pop()
            stack.extend(child for _, child in node.children)
            yield node

    def cached(self, node: Node) -> CachedFolder:
        return self._cached_folder(node)

    def differing(self, folders: dict[str, CachedFolder]) -> Iterator[str]:
        """Yield the folders whose own entries are not those of the last snapshot; the folders below count by name."""
        for node in self.nodes():
            old = folders.get(node.path)
            if old is None or node.id == old.tree or node.rows is None:
                continue
            before = self.sink.folder(old.tree).rows()
            now = self.sink.folder(node.id).rows() if node.sealed else node.rows
            if [_own(row) for row in before] != [_own(row) for row in now]:
                yield node.path


def _own(row) -> tuple:
    """Return what of a row its own folder decides: not what lies below, and not the other links of its file."""
    record = row.record[:28] if row.record[0] == FOLDER else row.record
    return row.name, record, {tag: value for tag, value in row.extras.items() if tag != LINK}


__all__ = ["Hinted"]
