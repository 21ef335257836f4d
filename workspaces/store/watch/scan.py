"""Scan a watched tree: look at the folders that may have changed alone, and ask what is new in them for writers."""

from __future__ import annotations

import errno
import os
from array import array
from typing import TYPE_CHECKING

from ..node import LookedAt, Node
from ..objects import FOLDER, LINK
from ..scan import Scan
from ..stat_cache import KEY, CachedFolder
from .watched import BASELINE, WATCHED
from .writers import has_writer, open_to_ask, sync_file

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .watched import Hints, Watched

_PATH = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
_LISTINGS = 5  # of a folder in which others exchange entries meanwhile
FULL = "the system marks no more files for this user (fs.fanotify.max_user_marks)"


class WatchedScan(Scan):
    """One pass by `hints`.

    A folder is vouched for if it has the path and the inode that it had at the last snapshot, and so have all above it.
    A vouched folder that is not dirty has the entries that it had, so it is neither listed nor opened. An entry whose
    stat key is not that of the last snapshot is fresh: it is asked for a writer and, where the kernel wants that,
    marked; then it is listed once more, so that what is known of it is younger than its mark.
    """

    def __init__(self, sink, cache, *, watched: Watched, hints: Hints, **options):
        super().__init__(sink, cache, **options)
        self.watched, self.hints = watched, hints
        self.walked = self.named = 0  # entries that were looked at: in walked folders, in folders that were dirty
        self.unmarked: set[str] = set()  # folders with an entry that could not be marked
        self._refused = ""  # why no more can be marked
        self._vouched: set[str] = set()

    def _prepare(self, root: int) -> None:
        super()._prepare(root)
        self._handle = self.watched.kernel.handle
        self._trusts = self.hints.mode == WATCHED

    def _is_vouched(self, path: str, inode: int) -> bool:
        if self.hints.mode == BASELINE or self.watched.inode_of.get(path) != inode:
            return False
        return not path or path.rpartition("/")[0] in self._vouched

    def _visit(self, fd, path, twin, depth):
        inode = os.fstat(fd).st_ino
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

    def _list_folder(self, fd, node):
        kernel, known, asked = self.watched.kernel, self._known_keys(node), {}
        if kernel.marks_entries:
            kernel.collect_changes()  # what this scan opens itself fills the queue
        self._mark(node.path, fd)
        for _ in range(_LISTINGS):
            listing = self._list(fd)
            fresh = [entry for entry in _differing(listing, known) if asked.get(entry.name) != entry.inode()]
            for entry in fresh:
                asked[entry.name] = self._ask(fd, node.path, entry)
            if not fresh or not kernel.marks_entries:
                return listing
        self.unmarked.add(node.path)
        return listing

    def _known_keys(self, node: Node) -> dict[str, bytes]:
        """Return the stat keys of a folder's entries at the last snapshot, by name; none where they prove nothing."""
        if node.old is None or node.path not in self._vouched or node.path in self.watched.unmarked:
            return {}
        return node.old.key_of_each()

    def _ask(self, fd: int, folder: str, entry: os.DirEntry) -> int | None:
        """Mark a fresh entry, and ask a file for a writer. Return the inode; None if it is gone or cannot be marked."""
        is_file, marks = entry.is_file(follow_symlinks=False), self.watched.kernel.marks_entries
        if not is_file and not marks:
            return entry.inode()
        if marks and self._trusts and entry.is_dir(follow_symlinks=False):
            self.hints.dirty.add(f"{folder}/{entry.name}" if folder else entry.name)  # its inode may be another's now
        try:
            if is_file:
                file = open_to_ask(entry.name, flags=os.O_NOFOLLOW, dir_fd=fd)
            else:
                file = os.open(entry.name, _PATH, dir_fd=fd)
        except FileNotFoundError:
            return None
        except OSError:
            self.unmarked.add(folder)
            return entry.inode()
        try:
            self._mark(folder, file, opens=is_file)
            if is_file and has_writer(file):
                sync_file(file)  # before it is read: the next store through a mapping then moves its ctime
                self.watched.found_writer(os.fstat(file).st_ino, self._handle.of(file))
            return os.fstat(file).st_ino
        finally:
            os.close(file)

    def _mark(self, folder: str, fd: int, *, opens: bool = False) -> None:
        """Mark an open entry, or make its folder due in each snapshot."""
        if self._refused or not self.watched.kernel.marks_entries:
            return
        try:
            if os.fstat(fd).st_dev != self._device:
                raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
            self.watched.kernel.mark(fd, opens=opens)
        except OSError as error:
            self.unmarked.add(folder)
            if error.errno == errno.ENOSPC:
                self._refused = FULL

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
        elif self._refused:
            self.watched.refuse(self._refused)

    def forget(self) -> None:
        self.watched.undo(self.hints)
        if self._refused:
            self.watched.refuse(self._refused)

    # -- what was found --------------------------------------------------------------------------------------------

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


def _differing(listing: tuple[list[os.DirEntry], str, bytes], known: dict[str, bytes]) -> Iterator[os.DirEntry]:
    """Yield the entries that have another stat key than is known of their name."""
    entries, _, keys = listing
    for number, entry in enumerate(entries):
        if known.get(entry.name) != keys[number * KEY.size : number * KEY.size + KEY.size]:
            yield entry


def _own(row) -> tuple:
    """Return what of a row its own folder decides: not what lies below, and not the other links of its file."""
    record = row.record[:28] if row.record[0] == FOLDER else row.record
    return row.name, record, {tag: value for tag, value in row.extras.items() if tag != LINK}


__all__ = ["WatchedScan"]
