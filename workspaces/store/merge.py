"""Merge three trees as git merges commits: `base`, what became of it `here`, and what is `coming`.

What only one side changed is taken from it; a text that both changed is merged by lines; a renamed file keeps the edits
of the other side. No git repository is needed. What both changed to different results is a conflict, left as git leaves
it: marked in the text, else with the coming file beside the one of here.
"""

import threading
import time
from collections.abc import Callable
from typing import NamedTuple

from . import renames
from .content import read_entry
from .diff import RENAMED, Change, below
from .errors import Cancelled, Missing
from .line_merge import LineMerge, merging_lines
from .lock import WAIT_SECONDS
from .objects import EMPTY, FILE, FOLDER, LINK, LISTED, TURNS, Entry
from .overlay import overlay
from .repository import Store
from .text import inside_git
from .writer import Writer

# Why a path is a conflict.
TEXT = "text"  # both changed these lines
WHOLE = "whole"  # both changed what has no lines to merge: a binary file, a link, another kind of entry
REMOVED_HERE = "removed_here"  # and changed by the coming side
REMOVED_THERE = "removed_there"  # and changed here
RENAMED_TWICE = "renamed"  # to two names, or two files to one name


class Conflict(NamedTuple):
    """A path that both sides changed to different results; `lines`: first and last of each part marked in it."""

    path: bytes
    why: str
    lines: list[tuple[int, int]]


class Merged(NamedTuple):
    """The merged tree, which is stored. `paths`: where it differs from `here`, for `Store.restore`.

    `taken`: the paths, of files and links, that have the changes of the coming side, none of them a conflict.
    """

    tree: str
    paths: list[bytes]
    taken: list[bytes]
    conflicts: list[Conflict]


def merge(
    store: Store,
    base: str,
    here: str,
    coming: str,
    *,
    name: str = "coming",
    apart: Callable[[bytes], bool] = inside_git,
    deletions: bool = True,
    hold: float = 3600.0,
    wait: float = WAIT_SECONDS,
    cancel: threading.Event | None = None,
) -> Merged:
    """Merge three trees of a store; garbage collection keeps the result for `hold` seconds.

    `name` stands for the coming side in markers and names. Paths for which `apart` is true stay as they are here.
    Without `deletions`, a path of `base` that is not `coming` counts as unchanged by it. Raise Cancelled.
    """
    sides = [_Side(store, base, other, apart) for other in (here, coming)]
    if not deletions:
        sides[1].forget_deletions()
    with merging_lines(b"here", name.encode()) as lines, store.blobs.writing(wait=wait, cancel=cancel):
        writer = Writer(store.catalog)
        try:
            merging = _Merge(store, writer, lines, here, name.encode(), *sides)
            merging.run(cancel)
            like = store.root(coming)
            tree = overlay(writer, store.root(here), merging.leaves, merging.folders, like)
            writer.commit(tree, hold)
        except BaseException:
            writer.abort()
            raise
    conflicts = sorted(merging.conflicts.values())
    taken = [path for path in merging.leaves if path not in merging.conflicts and path not in merging.beside]
    return Merged(tree, sorted(merging.leaves.keys() | merging.folders.keys()), sorted(taken), conflicts)


class _Side:
    """What one side changed: by path the entry of the base and its own, None where there is none."""

    def __init__(self, store: Store, base: str, other: str, apart: Callable[[bytes], bool]):
        self._read = store
        self.leaves: dict[bytes, tuple[Entry | None, Entry | None]] = {}
        self.folders: dict[bytes, tuple[Entry | None, Entry | None]] = {}
        self.moved: dict[bytes, bytes] = {}  # unchanged, to another path
        for change in store.diff(base, other):
            if not apart(change.path) and not (change.old_path and apart(change.old_path)):
                self._note(change)

    def _note(self, change: Change):
        old, new = change.old, change.new
        if any(side is not None and not side.kept for side in (old, new)):
            return  # its bytes are not stored
        if change.kind == RENAMED:
            self.moved[change.old_path] = change.path
            self.leaves[change.old_path] = self.leaves.get(change.old_path, (None, None))
            self.leaves[change.old_path] = (old, self.leaves[change.old_path][1])
            self.leaves[change.path] = (self.leaves.get(change.path, (None, None))[0], new)
            return
        for plane, is_folder in ((self.leaves, False), (self.folders, True)):
            pair = [side if side is not None and (side.kind == FOLDER) == is_folder else None for side in (old, new)]
            if any(pair):
                known = plane.get(change.path, (None, None))
                plane[change.path] = (pair[0] or known[0], pair[1] or known[1])

    def forget_deletions(self):
        there = {path for plane in (self.leaves, self.folders) for path, pair in plane.items() if pair[1] is not None}
        self.leaves = {path: pair for path, pair in self.leaves.items() if path in there}
        self.folders = {path: pair for path, pair in self.folders.items() if path in there}
        self.moved = {}

    def entry(self, path: bytes, otherwise: Entry | None) -> Entry | None:
        return self.leaves[path][1] if path in self.leaves else otherwise

    def find_renames(self, other: "_Side"):
        """Add the files that were renamed and edited, of those that the other side changed too."""
        arrived = {path: new for path, (old, new) in self.leaves.items() if old is None and new is not None}
        gone = {path: old for path, (old, new) in self.leaves.items() if old is not None and new is None}
        for path in self.moved.values():
            arrived.pop(path, None)
        relevant = [(path, old) for path, old in gone.items() if path not in self.moved and path in other.leaves]
        self.moved |= renames.find(relevant, arrived.items(), lambda entry: read_entry(self._read.catalog, entry))


class _Merge:
    """The changes to `here` that a merge makes: `leaves` and `folders` as `overlay` takes them."""

    def __init__(
        self, store: Store, writer: Writer, lines: LineMerge, here: str, name: bytes, ours: _Side, theirs: _Side
    ):
        self.store, self.writer, self.lines, self.here = store, writer, lines, here
        self.ours, self.theirs = ours, theirs
        self.name = name.replace(b" ", b"-").replace(b"/", b"-")
        self.leaves: dict[bytes, Entry | None] = {}
        self.folders: dict[bytes, Entry | None] = {}
        self.conflicts: dict[bytes, Conflict] = {}
        self.beside: set[bytes] = set()  # where a file of a conflict was put, since its own path has another one

    def run(self, cancel: threading.Event | None):
        self.ours.find_renames(self.theirs)
        self.theirs.find_renames(self.ours)
        done = self._renamed_there()
        done |= self._renamed_here(done)
        for path, (base, coming) in self.theirs.leaves.items():
            if cancel is not None and cancel.is_set():
                raise Cancelled("the merge was cancelled")
            if path not in done:
                self._leaf(path, base, self.ours.entry(path, base), coming)
        for path, (base, coming) in self.theirs.folders.items():
            self._folder(path, base, self.ours.folders.get(path, (None, base))[1], coming)
        self._clear_ways()

    # -- renames ---------------------------------------------------------------------------------------------------

    def _renamed_there(self) -> set[bytes]:
        done = set()
        for old, new in self.theirs.moved.items():
            base, coming = self.theirs.leaves[old][0], self.theirs.leaves[new][1]
            moved = self.ours.moved.get(old)
            here = self.ours.entry(moved or old, base)
            done |= {old, new, moved or old}
            if moved and moved != new:
                self._leaf(moved, base, here, coming)
                self._put(new, self.leaves.get(moved, here))
                self._note(new, RENAMED_TWICE)
            elif here is None:
                self._put(new, coming)
                self._note(new, REMOVED_HERE)
            elif not moved and self.ours.entry(new, None) is not None:
                self._keep_both(new, coming, RENAMED_TWICE)
            elif here.kind != base.kind:
                self._put(new, coming)
                self._note(old, WHOLE)
            else:
                self._leaf(new, base, here, coming, is_there=bool(moved))
                if not moved:
                    self._put(old, self.theirs.leaves[old][1])
        return done

    def _renamed_here(self, done: set[bytes]) -> set[bytes]:
        seen = set()
        for old, new in self.ours.moved.items():
            if old in done or new in done or old not in self.theirs.leaves:
                continue
            base, coming = self.theirs.leaves[old]
            seen |= {old, new}
            if coming is None:
                self._note(new, REMOVED_THERE)
            elif self.theirs.entry(new, None) is not None:
                self._keep_both(new, self.theirs.entry(new, None), RENAMED_TWICE)
                self._put(old, coming)
            elif coming.kind != base.kind:
                self._put(old, coming)
                self._note(old, WHOLE)
            else:
                self._leaf(new, base, self.ours.leaves[new][1], coming)
        return seen

    # -- one path --------------------------------------------------------------------------------------------------

    def _leaf(self, path, base: Entry | None, here: Entry | None, coming: Entry | None, *, is_there: bool = True):
        """Merge one path; not `is_there`: here it has another path until now."""
        if _same(here, coming) or _same(coming, base):
            if not is_there:
                self._put(path, here)
        elif _same(here, base):
            self._put(path, coming)
        elif coming is None:
            self._note(path, REMOVED_THERE)
        elif here is None:
            self._put(path, coming)
            self._note(path, REMOVED_HERE)
        elif here.kind == coming.kind == FILE and (base is None or base.kind == FILE):
            self._file(path, base, here, coming, is_there)
        else:
            self._keep_both(path, coming, WHOLE)

    def _file(self, path: bytes, base: Entry | None, here: Entry, coming: Entry, is_there: bool):
        mode = here.mode if base is None else here.mode ^ (base.mode ^ coming.mode) & ~(base.mode ^ here.mode)
        if coming.content == here.content or (base is not None and coming.content == base.content):
            if not is_there or mode != here.mode:
                self._put(path, here._replace(mode=mode))
        elif base is not None and here.content == base.content:
            self._put(path, coming._replace(mode=mode))
        else:
            self._text(path, base, here, coming, mode, is_there)
        if base is None and (here.mode ^ coming.mode) & 0o100 and path not in self.conflicts:
            self._note(path, WHOLE)

    def _text(self, path: bytes, base: Entry | None, here: Entry, coming: Entry, mode: int, is_there: bool):
        texts = [None if side is None else self._bytes_of(side) for side in (base, here, coming)]
        merged = None if None in texts[1:] else self.lines.merge(*texts)
        if merged is None:
            if not is_there:
                self._put(path, here)
            self._keep_both(path, coming, WHOLE)
            return
        content = self.writer.add(merged.content) if merged.content else EMPTY
        extras = {tag: value for tag, value in here.extras.items() if tag not in (LINK, TURNS)}
        self.leaves[path] = here._replace(
            flags=here.flags & ~LISTED, mode=mode, mtime_ns=time.time_ns(), size=len(merged.content),
            content=content, extras=extras,
        )  # fmt: skip
        if merged.lines:
            self._note(path, TEXT, merged.lines)

    def _bytes_of(self, entry: Entry) -> bytes | None:
        return read_entry(self.store.catalog, entry) if entry.size <= renames.MAX_BYTES else None

    def _folder(self, path: bytes, base: Entry | None, here: Entry | None, coming: Entry | None):
        if _same(here, coming) or _same(coming, base):
            return
        if _same(here, base) or coming is None:
            self.folders[path] = coming
        elif here is not None and base is not None:
            mode = here.mode ^ (base.mode ^ coming.mode) & ~(base.mode ^ here.mode)
            self.folders[path] = here._replace(mode=mode)

    # -- results ---------------------------------------------------------------------------------------------------

    def _put(self, path: bytes, entry: Entry | None):
        """Set what is at a path; a name that shares its file with others gets a file of its own."""
        if entry is not None and entry.link:
            entry = entry._replace(extras={tag: value for tag, value in entry.extras.items() if tag != LINK})
        self.leaves[path] = entry

    def _keep_both(self, path: bytes, entry: Entry, why: str, of: bytes = b""):
        free = self._free(path + b"~" + (of or self.name))
        self._put(free, entry)
        self.beside.add(free)
        self._note(path, why)

    def _note(self, path: bytes, why: str, lines: list[tuple[int, int]] = ()):
        self.conflicts[path] = Conflict(path, why, list(lines))

    def _free(self, path: bytes) -> bytes:
        number, free = 0, path
        while free in self.leaves or self._is_there(free) is not None:
            number += 1
            free = b"%s-%d" % (path, number)
        return free

    def _is_there(self, path: bytes) -> Entry | None:
        try:
            return self.store.entry(self.here, path)
        except Missing:
            return None

    # -- a file where the other side has a folder ------------------------------------------------------------------

    def _clear_ways(self):
        """Put a file aside where the merged tree needs a folder: the folder has the path, as in git."""
        for path in sorted(path for path, entry in self.leaves.items() if entry is not None):
            for above in _ancestors(path):
                entry = self.leaves[above] if above in self.leaves else self.ours.entry(above, None)
                if entry is not None:
                    self._keep_both(above, entry, WHOLE, of=b"here")
                    self.leaves[above] = None
            if self._has_more_below(path):
                self._keep_both(path, self.leaves.pop(path), WHOLE)

    def _has_more_below(self, path: bytes) -> bool:
        """Return whether here is a folder at the path with something in it that stays."""
        if path not in self.ours.folders and path not in self.theirs.folders:
            return False
        found = self._is_there(path)
        if found is None or found.kind != FOLDER:
            return False
        inside = (at for at, entry in below(self.store.catalog.folder, path, found) if entry.kind != FOLDER)
        return any(at not in self.leaves or self.leaves[at] is not None for at in inside)


def _ancestors(path: bytes):
    return [path[:at] for at, byte in enumerate(path) if byte == ord("/")]


def _same(one: Entry | None, other: Entry | None) -> bool:
    """Return whether two entries are equal but for owner, times and hard links."""
    if one is None or other is None:
        return one is other
    if one.kind != other.kind or (one.kind != FOLDER and one.content != other.content):
        return False
    return one.target == other.target and one.mode == other.mode and one.xattrs == other.xattrs
