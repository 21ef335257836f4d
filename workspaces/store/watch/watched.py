"""What is known of one watched tree between two snapshots, and what the next one has to look at.

Everything known is of the last snapshot. An event of an inode that the tree had then makes its folders, and what the
inode is if it is a folder, due for a look. Inodes that it did not have then need no events: they can only have come
into the tree by a change of one of its folders, and what a snapshot finds new in a folder it reads and asks for
writers. A file with a writer is looked at until it has none.
"""

from __future__ import annotations

import os
import threading
import time
from array import array
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ..file_system import is_ctime_trusted
from ..mount_table import mounts_below
from .opened import Opened

if TYPE_CHECKING:
    from ..stat_keys import CachedFolder
    from .fanotify import Kernel
    from .scan import WatchedScan

DEFAULT_PROOF_EVERY = 50  # snapshots
BASELINE, PROOF, WATCHED = "baseline", "proof", "watched"
UNPROVEN = "the file times of this file system do not prove that a file is unchanged"


@dataclass
class Hints:
    """What one snapshot has to look at.

    `mode`: WATCHED looks at `dirty` alone; PROOF walks everything and compares; BASELINE walks, with nothing known, and
    asks of every file whether it has a writer. `below` are the folders that lead to dirty ones.
    """

    mode: str
    dirty: set[str] = field(default_factory=set)
    below: set[str] = field(default_factory=set)


class Watched:
    """One tree, by the paths of its folders relative to it ("" is the tree). Thread-safe; one snapshot at a time."""

    def __init__(self, *, proof_every: int = DEFAULT_PROOF_EVERY, off: str = ""):
        self.proof_every = proof_every
        self.off = off  # why nothing may be watched
        self.how, self.why = "off", off or "no snapshot has been taken yet"
        self.alarms = 0
        self.kernel = None
        self.folders: dict[str, CachedFolder] = {}
        self.inodes: dict[str, array] = {}  # of the entries of each folder
        self.folder_at: dict[int, str] = {}  # inode of a folder -> its path
        self.inode_of: dict[str, int] = {}  # and back
        self.places: dict[int, str | tuple[str, ...]] = {}  # inode of an entry -> its folders
        self.notable: set[str] = set()  # folders with hard links or skipped entries, and those that lead to them
        self.unmarked: set[str] = set()  # folders with an entry of which the kernel tells nothing: always due
        self._root: os.stat_result | None = None
        self._stamp: tuple | None = None
        self._mounts: frozenset[tuple[str, ...]] = frozenset()
        self._lock = threading.Lock()
        self._lost = "no snapshot has been taken yet"
        self._dirty: set[str] = set()
        self._opened = Opened()
        self._late: tuple[set[int], dict[int, bytes]] | None = None  # events during a scan
        self._since_proof = 0

    @property
    def writers(self) -> dict[int, bytes]:
        """Return the handles of the files with a writer, by inode."""
        return self._opened.writers

    def knows(self) -> bool:
        """Return whether the next snapshot need not walk, as far as is known."""
        return self.kernel is not None and bool(self.folders) and not self._lost

    # -- events, from the kernel's thread --------------------------------------------------------------------------

    def note_changes(self, inodes: set[int]) -> None:
        with self._lock:
            if self._late is not None:
                self._late[0].update(inodes)
            self._touch(inodes & self.places.keys())
            self._touch_folders(inodes & self.folder_at.keys())

    def knows_any(self, inodes: set[int]) -> bool:
        with self._lock:
            return self._late is not None or not self.places.keys().isdisjoint(inodes)

    def note_opens(self, opened: dict[int, bytes]) -> None:
        with self._lock:
            if self._late is not None:
                self._late[1].update(opened)
            self._opened.note({inode: opened[inode] for inode in opened.keys() & self.places.keys()})

    def ask_ahead(self, kernel: Kernel) -> bool:
        """Ask some of the opened files for writers, if there are many. Return whether there are still many."""
        return self._opened.ask_ahead(kernel)

    def places_of(self, inode: int) -> tuple[str, ...]:
        """Return the folders that an entry was in at the last snapshot."""
        with self._lock:
            return _as_tuple(self.places.get(inode, ()))

    def lose(self, why: str) -> None:
        """Forget what is known: the next snapshot walks."""
        with self._lock:
            self._lost = self._lost or why

    def _touch(self, inodes) -> None:
        for inode in inodes:
            place = self.places[inode]
            self._dirty.update((place,) if isinstance(place, str) else place)

    def _touch_folders(self, inodes) -> None:
        self._dirty.update(self.folder_at[inode] for inode in inodes)

    def scan(self, live, sink, known, stamp: tuple, *, thorough: bool, prove: bool, holds) -> WatchedScan | None:
        """Return the scan of an open tree for a snapshot; None where nothing is watched.

        `known(folders)` returns the stat cache: from its file, or with these folders. `holds(id)` says whether the
        store has an object. The scan's `remember` or `forget` must follow.
        """
        from .scan import WatchedScan

        started_ns = time.time_ns()
        if self.folders and not holds(self.folders[""].tree):
            self.lose("a collection removed the last snapshot")
        hints = self.begin(live.root, os.fsdecode(live.place), stamp, prove=prove or thorough)
        if hints is None:
            return None
        if hints.mode != WATCHED:
            started_ns = live.begin()
        cache = known() if hints.mode == BASELINE else known(self.folders)
        how = {"thorough": thorough, "started_ns": started_ns}
        return WatchedScan(sink, cache, watched=self, hints=hints, **how)

    # -- a snapshot ------------------------------------------------------------------------------------------------

    def begin(self, root: int, path: str, stamp: tuple, *, prove: bool) -> Hints | None:
        """Return what to look at; None where nothing is watched. `settle` or `undo` must follow."""
        if not self._join(root):
            return None
        with self._lock:
            if self._late is not None:
                self._lost = self._lost or "the last snapshot came to no end"
            self._late = (set(), {})
        due = self._opened.ask(self.kernel)
        self.kernel.collect_changes()
        mounts = mounts_below(path)
        with self._lock:
            self._late = (set(), {})  # what has come until now is due, or new to the scan
            if self._is_lost(root, stamp):
                self._stamp, self._root, self._mounts, self._lost = stamp, os.fstat(root), mounts, ""
                self._dirty.clear()
                return Hints(BASELINE)
            self._touch(due & self.places.keys())
            dirty, self._dirty = self._dirty, set()
            for mount, *_ in mounts ^ self._mounts:
                dirty |= {mount, mount.rpartition("/")[0]}
            self._mounts = mounts
            self._since_proof += 1
            dirty |= self.unmarked
            dirty |= {"", ".handrail"}  # where a driver's mount point is left out by its content
            is_due = prove or self._since_proof >= self.proof_every
            return Hints(PROOF if is_due else WATCHED, dirty, _above(dirty))

    def _join(self, root: int) -> bool:
        """Return whether the kernel tells of changes; start that at first."""
        if self.kernel is not None:
            return True
        if self.alarms or self.off:
            self.how, self.why = "off", self.why if self.alarms else self.off
            return False
        if not is_ctime_trusted(root):
            self.how, self.why = "off", UNPROVEN
            return False
        from . import kernels

        try:
            self.kernel = kernels.join(root, self)
        except OSError as error:
            self.how, self.why = "off", f"the kernel tells of no changes: {error.strerror or error}"
            return False
        self.how, self.why = self.kernel.how, self.kernel.why
        return True

    def _is_lost(self, root: int, stamp: tuple) -> bool:
        found = os.fstat(root)
        same = self._root is not None and (found.st_dev, found.st_ino) == (self._root.st_dev, self._root.st_ino)
        return bool(self._lost) or not same or stamp != self._stamp

    def found_writer(self, inode: int, handle: bytes) -> None:
        """Note a file that the scan found open for writing."""
        self._opened.note_writer(inode, handle)

    def undo(self, hints: Hints) -> None:
        """Make all due again that a snapshot looked at which was not kept."""
        with self._lock:
            self._late = None
            if hints.mode == BASELINE:
                self._lost = "the first snapshot was not kept"
            self._dirty |= hints.dirty

    def settle(self, hints: Hints, scan: WatchedScan) -> list[str]:
        """Take over what a scan found. Return the paths that a PROOF found changed and no event had named.

        None where events got lost meanwhile, since any may have named them; the next snapshot walks.
        """
        self.kernel.collect_opens()
        self.kernel.collect_changes()
        with self._lock:
            missed = self._missed(hints, scan) if hints.mode == PROOF and not self._lost else []
            if hints.mode == WATCHED:
                self._update(scan)
            else:
                self._replace(scan)
                self._since_proof = 0
            changes, opens = self._late
            self._late = None
            self._touch(changes & self.places.keys())
            self._touch_folders(changes & self.folder_at.keys())
            self._opened.note({inode: opens[inode] for inode in opens.keys() & self.places.keys()})
        return missed

    def _missed(self, hints: Hints, scan: WatchedScan) -> list[str]:
        """Return the folders that differ and were not due, nor have become so while the scan ran."""
        writing = {place for inode in self.writers for place in _as_tuple(self.places.get(inode, ()))}
        due = hints.dirty | self._dirty | writing
        return sorted(path for path in scan.differing(self.folders) if path not in due)

    def _forget(self) -> None:
        for known in (self.folders, self.inodes, self.folder_at, self.inode_of, self.places, self.notable):
            known.clear()

    def _replace(self, scan: WatchedScan) -> None:
        self._forget()
        for node in scan.nodes():
            self._add(node, scan.cached(node))
        self.unmarked = set(scan.unmarked)
        self._note_notable()

    def _update(self, scan: WatchedScan) -> None:
        looked_at = [node for node in scan.nodes() if node.inodes is not None]
        is_notable = False
        for node in looked_at:
            if old := self.folders.get(node.path):
                is_notable = is_notable or bool(old.linked or old.skipped)
                gone = set(old.folders) - {name for name, _ in node.children} - set(node.kept)
                for name in gone:
                    is_notable |= self._drop(f"{node.path}/{name}" if node.path else name)
                if self.inode_of[node.path] != node.inode:
                    is_notable |= self._drop(node.path)
                else:
                    self._drop_places(node.path)
        for node in looked_at:
            self._add(node, scan.cached(node))
            self.unmarked.discard(node.path)
        self.unmarked |= scan.unmarked
        for node in scan.nodes():
            if node.inodes is None and node.id != node.old.tree:
                self.folders[node.path] = scan.cached(node)
        if is_notable or any(node.linked or node.skipped for node in looked_at):
            self._note_notable()

    def _add(self, node, cached: CachedFolder) -> None:
        self.folders[node.path], self.inodes[node.path] = cached, node.inodes
        self.folder_at[node.inode], self.inode_of[node.path] = node.path, node.inode
        for inode in node.inodes:
            place = self.places.get(inode)
            if place is None:
                self.places[inode] = node.path
            elif node.path not in _as_tuple(place):
                self.places[inode] = (*_as_tuple(place), node.path)

    def _drop_places(self, path: str) -> None:
        for inode in self.inodes.get(path, ()):
            left = tuple(place for place in _as_tuple(self.places.get(inode, ())) if place != path)
            if not left:
                self.places.pop(inode, None)
            else:
                self.places[inode] = left if len(left) > 1 else left[0]

    def _drop(self, path: str) -> bool:
        """Forget a folder and all below it. Return whether any of it was notable."""
        old = self.folders.pop(path, None)
        if old is None:
            return False
        self._drop_places(path)
        self.unmarked.discard(path)
        self.inodes.pop(path, None)
        inode = self.inode_of.pop(path)
        if self.folder_at.get(inode) == path:
            del self.folder_at[inode]
        below = [self._drop(f"{path}/{name}" if path else name) for name in old.folders]
        return bool(old.linked or old.skipped) or any(below)

    def _note_notable(self) -> None:
        found = {path for path, old in self.folders.items() if old.linked or old.skipped}
        self.notable = found | _above(found)

    # -- the end ---------------------------------------------------------------------------------------------------

    def fail(self, missed: list[str]) -> None:
        """Switch watching off for good: a walk found a change of which nothing had been heard."""
        self.alarms += 1
        shown = ", ".join(repr(path or ".") for path in missed[:3])
        self.close(f"a walk found a change in {shown} of which the kernel had told nothing")

    def refuse(self, why: str) -> None:
        """Watch nothing from now on: the kernel grants too little for this tree."""
        self.off = why
        self.close(why)

    def close(self, why: str = "it is not up") -> None:
        """Stop watching and forget everything."""
        from . import kernels

        kernel, self.kernel = self.kernel, None
        self.how, self.why = "off", why
        if kernel is not None:
            kernels.leave(kernel, self)
        with self._lock:
            self._lost = self._lost or why
            self._forget()
            self._opened.forget()
            self._dirty.clear()
            self._late = None


def _as_tuple(place: str | tuple[str, ...]) -> tuple[str, ...]:
    return (place,) if isinstance(place, str) else place


def _above(paths: set[str]) -> set[str]:
    """Return all folders that lead to these paths."""
    found = set()
    for path in paths:
        while path and (path := path.rpartition("/")[0]) not in found:
            found.add(path)
    return found


__all__ = ["BASELINE", "DEFAULT_PROOF_EVERY", "PROOF", "UNPROVEN", "WATCHED", "Hints", "Watched"]
