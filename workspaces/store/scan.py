"""Walk a live tree and compute the id of the tree and of each folder in it, in one pass.

A folder whose names and stat keys match its last snapshot keeps its id; its files are not opened. Every entry is
opened relative to the descriptor of its folder, and no symlink is followed.
"""

from __future__ import annotations

import os
import stat
import sys
import threading

from . import blocks, mount_point
from .depth import MAX_DEPTH, RAISE_LIMITS_AT, raise_limits
from .errors import Cancelled, name_the_path
from .file_reader import LEFT_OUT, Inspect, LeavesOut, Moved, Reader, Sink, fd_xattrs, ignored_row, make_row
from .hard_links import HardLinks
from .node import LookedAt, Node, Skipped
from .objects import (
    FILE,
    FOLDER,
    LINK,
    MOST_BYTES,
    NOTHING,
    TORN,
    UNKEPT,
    XATTRS,
    Entry,
    Folder,
    Row,
    encode_folder,
)
from .progress import Progress, Report
from .stat_cache import StatCache
from .stat_keys import KEY, CachedFolder, list_folder, pack_keys
from .unread import Unread

RACY_NS = 20_000_000  # longer than one tick of any kernel's clock
_ENCODING, _ENCODE_ERRORS = sys.getfilesystemencoding(), sys.getfilesystemencodeerrors()  # as os.fsencode, inlined
_UNKNOWN_KEY = bytes(KEY.size)
_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Scan(Unread):
    """One pass over a tree. `thorough` reads every file; `twin` is a tree id: its contents are used where stat matches.

    A folder in which no file has several links is encoded as soon as it was visited, so its rows are not kept.
    `started_ns` is the tree's clock (Unix time in ns) before the sync that precedes the scan.
    """

    seals_early = True

    def __init__(self, sink: Sink, cache: StatCache | None = None, *, thorough: bool = False, started_ns: int = 0):
        self.sink, self.cache, self.thorough, self.started_ns = sink, cache, thorough, started_ns
        self.twin: bytes | None = None
        self.inspect: Inspect | None = None
        self.leaves_out: LeavesOut | None = None
        self.shown: mount_point.Shown | None = None
        self.shared = self.made = None  # see `tree.LocalTree`
        self.cancel: threading.Event | None = None
        self.report: Report | None = None
        self.for_restore = False  # then a folder that holds only the mount point is listed, empty
        self.has_mount_point = False  # after a scan for a restore: a driver's mount point is there and was left out
        self.entries = self.bytes = 0

    def run(self, root: int) -> bytes:
        """Scan the tree and return its id; the sink then has every object of the tree."""
        self._prepare(root)
        try:
            self._node = self._visit(root, "", self._twin_root(), 0)
        finally:
            del self._reader  # it refers to this scan: the store's open files would stay until a collection of cycles
        self._regrouped = self._links.regroup()
        self._seal(self._node)
        row = make_row(b"", self._found, self._node.id, extras=self._xattrs(root))
        self.entries, self.bytes = self._node.entries, self._node.bytes
        return self.sink.add(encode_folder([row], self.entries, self.bytes), kind=blocks.META)

    def _prepare(self, root: int) -> None:
        self._reader = self._new_reader()
        self._links = HardLinks()
        self._skipped: dict[bytes, str] = {}
        self._seen_entries = self._seen_bytes = 0
        self._scanned_folders, self._regrouped = 0, False
        self._total = (None, None)
        self._found = self._stat_root(root)
        self._device = self._found.st_dev
        self._limit_ns = self.started_ns - RACY_NS
        self._cached = self.cache.folders if self.cache and not self.thorough else {}
        if old := self._cached.get(""):
            self._total = (old.entries, old.bytes)

    # -- access to the tree: by descriptors here, from a guest's listings in `guest.scan.RemoteScan` -----------------

    def _new_reader(self) -> Reader:
        return Reader(self.sink, inspect=self.inspect, check=self._check)

    def _stat_root(self, root: int) -> os.stat_result:
        return os.fstat(root)

    def _xattrs(self, fd: int) -> dict[int, bytes]:
        return fd_xattrs(fd)

    def _list(self, fd: int) -> tuple[list[os.DirEntry], str, bytes]:
        """Return the entries of a folder, their names joined by NUL, and their packed stat keys."""
        return list_folder(fd)

    def _hidden(self, fd: int, path: str) -> str:
        """Return the name of the entry that is a driver's and not part of the tree, or ""; see `mount_point`."""
        return mount_point.hidden(fd, path, self.shown)

    def _enter(self, fd: int, name: str) -> int:
        return os.open(name, _FOLDER_FLAGS, dir_fd=fd)

    def _leave(self, fd: int) -> None:
        os.close(fd)

    def _stat(self, fd: int, name: str) -> os.stat_result:
        return os.stat(name, dir_fd=fd, follow_symlinks=False)

    # -- walking ---------------------------------------------------------------------------------------------------

    def _twin_root(self) -> Folder | None:
        return self.sink.folder(self.sink.folder(self.twin).root().content) if self.twin else None

    def _inner(self, twin: Entry | None) -> Folder | None:
        return self.sink.folder(twin.content) if twin and twin.kind == FOLDER and twin.kept else None

    def _check(self, read: int) -> None:
        self._seen_bytes += read
        self.check_cancelled()

    def check_cancelled(self) -> None:
        if self.cancel is not None and self.cancel.is_set():
            raise Cancelled("cancelled; nothing was stored")

    def _visit(self, fd: int, path: str, twin: Folder | None, depth: int) -> Node:
        self._check(0)
        if depth == RAISE_LIMITS_AT:
            raise_limits()
        node = Node(path, self._cached.get(path))
        entries, node.names, node.keys = self._list_folder(fd, node)
        if path in ("", mount_point.FOLDER):
            entries = self._leave_out(fd, node, entries)
        self._note_listed(fd, node, entries)
        self._seen_entries += len(entries)
        if self.report:
            self.report(Progress(self._seen_entries, self._seen_bytes, *self._total))
        old = node.old
        is_same = old and old.keys == node.keys and old.names == node.names
        if not (is_same and self._recall(fd, node, twin, depth)):
            self._scan_entries(fd, node, entries, twin, depth)
        self._seal_early(node)
        return node

    def _list_folder(self, fd: int, node: Node) -> tuple[list[os.DirEntry], str, bytes]:
        """Return what `_list` does, of a folder that is about to be looked at."""
        return self._list(fd)

    def _note_listed(self, fd: int, node: Node, entries: list[os.DirEntry]) -> None:
        """Note what a folder lists; none of its entries has been read yet."""

    def _leave_out(self, fd: int, node: Node, entries: list[os.DirEntry]) -> list[os.DirEntry]:
        """Leave out a driver's mount point. For a restore its folder is listed, so that the folder stays in place."""
        name = self._hidden(fd, node.path)
        if not name or (self.for_restore and name == mount_point.FOLDER):
            return entries
        self.has_mount_point = True
        entries = [entry for entry in entries if entry.name != name]
        node.names = "\0".join([entry.name for entry in entries])
        node.keys = pack_keys([entry.stat(follow_symlinks=False) for entry in entries])
        return entries

    def _recall(self, fd: int, node: Node, twin: Folder | None, depth: int) -> bool:
        """Reuse the cached state of this folder and visit the folders below. Return False if one of them is gone."""
        prefix = node.path + "/" if node.path else ""
        for name in node.old.folders:
            try:
                below = self._enter(fd, name)
            except OSError:
                node.children.clear()
                return False
            try:
                inner = self._inner(twin.find(os.fsencode(name))) if twin else None
                child = self._visit(below, prefix + name, inner, depth + 1)
            finally:
                self._leave(below)
            node.children.append((name, child))
        self._recall_notes(node)
        return True

    def _recall_notes(self, node: Node) -> None:
        """Note the hard links and skipped entries of a folder that is as it was, once the folders below are visited."""
        node.same = all(child.same for _, child in node.children)
        for linked in node.old.linked:
            self._links.note(node, *linked)
        for name, reason in node.old.skipped:
            self._skip(node, name, reason)

    def _scan_entries(self, fd: int, node: Node, entries: list[os.DirEntry], twin: Folder | None, depth: int) -> None:
        self._scanned_folders += 1
        old_rows, old_keys = self._known_rows(node)
        twins = {entry.name: entry for entry in twin} if twin else {}
        rows, keys = [], {}
        packed = node.keys
        for number, entry in enumerate(entries):
            listed = found = entry.stat(follow_symlinks=False)
            key = packed[number * KEY.size : number * KEY.size + KEY.size]
            name = entry.name.encode(_ENCODING, _ENCODE_ERRORS)
            if self.leaves_out and self._is_left_out(node, entry.name, found):
                rows.append(ignored_row(name, found))
                keys[entry.name] = _UNKNOWN_KEY
                self._skip(node, entry.name, LEFT_OUT)
                continue
            known = None
            if old_keys and old_keys.get(entry.name) == key:
                known = old_rows.get(name)
            try:
                row, found, trusted = self._row(fd, node, entry.name, name, found, known, twins.get(name), depth)
            except Exception as error:
                name_the_path(error, node.path + "/" + entry.name if node.path else entry.name)
                raise
            if row is None:
                continue
            if self.inspect and known is None:
                self._show(node, entry.name, row)
            rows.append(row)
            key = key if found is listed else pack_keys([found])
            keys[entry.name] = key if trusted else _UNKNOWN_KEY
            if found.st_nlink > 1 and stat.S_ISREG(found.st_mode) and not row.record[1] & UNKEPT:
                self._links.note(node, entry.name, found.st_ino, row.extras.get(LINK, b""))
        node.names, node.keys = "\0".join(keys), b"".join(keys.values())
        node.rows = sorted(rows, key=lambda row: row.name)

    def _is_left_out(self, node: Node, name: str, found: os.stat_result) -> bool:
        path = os.fsencode(node.path + "/" + name if node.path else name)
        return self.leaves_out(path, stat.S_ISDIR(found.st_mode))

    def _show(self, node: Node, name: str, row: Row) -> None:
        """Pass path and extended attributes to `inspect` for an entry that has some, or has no content to inspect."""
        if row.record[0] != FILE or row.record[20:28] == bytes(8) or XATTRS in row.extras:
            path = os.fsencode(node.path + "/" + name if node.path else name)
            self.inspect(path, row.extras.get(XATTRS, b""))

    def _known_rows(self, node: Node) -> tuple[dict[bytes, Row], dict[str, bytes]]:
        if node.old is None:
            return {}, {}
        return {row.name: row for row in self.sink.folder(node.old.tree).rows()}, node.old.key_of_each()

    def _row(self, fd, node, text, name, found, known, twin, depth) -> tuple[Row | None, os.stat_result, bool]:
        """Return (row, its stat, whether that stat can be trusted by the next scan)."""
        prefix = node.path + "/" if node.path else ""
        for _ in range(5):
            try:
                if stat.S_ISDIR(found.st_mode):
                    row, reason = self._folder(fd, node, text, name, found, twin, depth)
                elif known is not None:
                    return known, found, True
                elif row := self._row_unread(fd, name, found, twin):
                    reason = ""
                else:
                    row, found, reason = self._reader.row(fd, name, prefix + text, found)
            except Moved:
                known = None
                try:
                    found = self._stat(fd, text)
                except FileNotFoundError:
                    return None, found, False
                continue
            if reason:
                self._skip(node, text, reason)
            trusted = 0 <= found.st_ctime_ns < self._limit_ns and not row.record[1] & (TORN | UNKEPT)
            return row, found, trusted
        self._skip(node, text, "changed its type during each read")
        return make_row(name, found, NOTHING, flags=UNKEPT), found, False

    def _folder(self, fd, node, text, name, found, twin, depth) -> tuple[Row, str]:
        reason = ""
        if found.st_dev != self._device:
            reason = "another file system is mounted here"
        elif depth >= MAX_DEPTH:
            reason = f"nested deeper than {MAX_DEPTH} folders"
        if reason:
            return make_row(name, found, NOTHING, flags=UNKEPT), reason
        try:
            below = self._enter(fd, text)
        except PermissionError:
            return make_row(name, found, NOTHING, flags=UNKEPT), "permission denied"
        except OSError as error:
            raise Moved from error
        try:
            path = node.path + "/" + text if node.path else text
            child = self._visit(below, path, self._inner(twin), depth + 1)
            row = make_row(name, found, NOTHING, extras=self._xattrs(below))
        except PermissionError:  # it can be listed but not entered
            return make_row(name, found, NOTHING, flags=UNKEPT), "permission denied"
        finally:
            self._leave(below)
        node.children.append((text, child))
        return row, ""

    def _skip(self, node: Node, name: str, reason: str) -> None:
        node.skipped.append((name, reason))
        self._skipped[os.fsencode(node.path + "/" + name if node.path else name)] = reason

    @property
    def skipped(self) -> list[Skipped]:
        return [Skipped(path, reason) for path, reason in sorted(self._skipped.items())]

    def link_groups(self) -> dict[bytes, list[bytes]]:
        """Return the paths of each hard-link group of this scan, by group id."""
        return self._links.groups()

    # -- ids -------------------------------------------------------------------------------------------------------

    def _seal_early(self, node: Node) -> None:
        """Encode a folder now if nothing that is still to come can change it: hard links elsewhere."""
        if self.seals_early and not node.linked and all(child.sealed for _, child in node.children):
            self._seal(node)
            node.sealed, node.rows = True, None if node.rows is None else []

    def _seal(self, node: Node) -> None:
        """Compute the id of each folder, bottom-up."""
        old = node.old
        if node.sealed:
            return
        if node.same and not self._regrouped:
            node.id, node.entries, node.bytes = old.tree, old.entries, old.bytes
            return
        for _, child in node.children:
            self._seal(child)
        if node.rows is None:
            if not node.groups and all(child.old and child.id == child.old.tree for _, child in node.children):
                node.id, node.entries, node.bytes = old.tree, old.entries, old.bytes
                return
            node.rows = self.sink.folder(old.tree).rows()
        ids = {os.fsencode(name): child for name, child in node.children}
        groups = {os.fsencode(name): group for name, group in node.groups.items()}
        prefix = os.fsencode(node.path + "/") if node.path else b""
        for row in node.rows:
            kind, flags = row.record[0], row.record[1]
            if child := ids.get(row.name):
                row.point_at(child.id)
                node.entries += child.entries
                node.bytes += child.bytes
            elif kind == FOLDER and not flags & UNKEPT:  # one that was not visited
                known = self._cached[os.fsdecode(prefix + row.name)]
                node.entries += known.entries
                node.bytes += known.bytes
            elif row.name in groups:
                row.group(groups[row.name])
            if not flags & UNKEPT:
                node.entries += 1
                if kind == FILE:
                    node.bytes += int.from_bytes(row.record[20:28], "little")
        node.bytes = min(node.bytes, MOST_BYTES)
        node.linked = [(name, inode, node.groups.get(name, group)) for name, inode, group in node.linked]
        node.id = self.sink.add(encode_folder(node.rows, node.entries, node.bytes), kind=blocks.META)

    def remember(self) -> None:
        """Write the stat cache for the next scan; entries changed within the racy window get an unknown key."""
        if self.cache is None or (self._node.same and not self._regrouped):
            return
        if self.thorough or self.cache.is_outdated(self._scanned_folders, self._seen_bytes):
            self._write_cache()

    def forget(self) -> None:
        """Take back what was noted: the snapshot that this scan was for is not kept."""

    def looked_at(self) -> LookedAt:
        return LookedAt(self._seen_entries, 0)

    def _write_cache(self) -> None:
        folders, stack = [], [self._node]
        while stack:
            node = stack.pop()
            stack.extend(child for _, child in node.children)
            folders.append((node.path, self._cached_folder(node)))
        self.cache.write(folders)

    def _cached_folder(self, node: Node) -> CachedFolder:
        if node.rows is None:
            return node.old
        names = [*(name for name, _ in node.children), *node.kept]
        facts = (node.linked, node.skipped, node.entries, node.bytes)
        return CachedFolder(node.id, node.names, node.keys, names, *facts)
