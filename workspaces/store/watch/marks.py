"""Events of one tree by a mark on each of its inodes, which fanotify grants to everybody (since Linux 5.13).

A mark on a folder alone would not do: a second name of a file, made outside of the tree, is an event of the file's
inode and of the other folder, and so is what is written by that name. Marked inodes stay in the kernel's memory, some
1.2 kB each, and a user has only so many (`fs.fanotify.max_user_marks`).
"""

from __future__ import annotations

import errno
import os
import stat
import struct

from ..safe_open import open_beneath
from .fanotify import CHANGES, INIT, OPEN, Kernel, add_mark, new_group


class Marks(Kernel):
    """The events of the inodes that a scan has marked, in a queue that may overflow."""

    why = "its files and folders are watched one by one"
    limit = "fs.fanotify.max_user_marks"
    is_shared, marks_entries = False, True
    pause_s = 0.1  # the queue has a limit, and the scan's own reading fills it

    def _ask(self, root: int) -> None:
        self._changes = self._opens = new_group(INIT)
        self._names: dict[str, dict[int, str]] = {}
        self.mark(root)

    def mark(self, fd: int, *, opens: bool = False) -> None:
        add_mark(self._changes, fd, CHANGES | OPEN if opens else CHANGES)

    def collect_opens(self) -> None:
        self.collect_changes()

    def collect_changes(self) -> None:
        with self._lock:
            self._names.clear()
            self._read(self._changes, self._pass_on)

    def _pass_on(self, data: bytes) -> None:
        own, form = os.getpid(), self.handle.form
        changed: set[int] = set()
        opened: dict[int, bytes] = {}
        for pid, mask, handle in self._events(data):  # to who has no rights, the kernel names no process but its own
            inode = struct.unpack_from(form, handle)[0]
            if mask & CHANGES & ~_ON_FOLDER:
                changed.add(inode)
            if mask & OPEN and pid != own:
                opened[inode] = handle
        for tree in self._trees:
            tree.note_changes(changed)
            tree.note_opens(opened)

    def open_file(self, handle: bytes) -> int | None:
        """Open a file by a name that it had at the last snapshot. Raise OSError if it has none of them now."""
        inode = struct.unpack_from(self.handle.form, handle)[0]
        places = [place for tree in self._trees for place in tree.places_of(inode)]
        if not places:
            return None  # it is not in the tree, or new to it: then the scan asks
        for place in places:
            name = self._names_in(place).get(inode)
            if name is not None and (found := self._open(f"{place}/{name}" if place else name, inode)):
                return found
        raise FileNotFoundError(errno.ENOENT, "the file has none of the names that it had")

    def _names_in(self, folder: str) -> dict[int, str]:
        """Return the names in a folder by inode, as they were at the first question since the last collection."""
        with self._lock:
            if folder not in self._names:
                self._names[folder] = self._list(folder)
            return self._names[folder]

    def _list(self, folder: str) -> dict[int, str]:
        try:
            fd = open_beneath(self._mount, os.fsencode(folder), os.O_RDONLY | os.O_DIRECTORY)
        except OSError:
            return {}
        try:
            with os.scandir(fd) as listing:
                return {entry.inode(): entry.name for entry in listing}
        finally:
            os.close(fd)

    def _open(self, path: str, inode: int) -> int | None:
        """Open a regular file for reading if it has this inode; nothing else is opened."""
        try:
            at = open_beneath(self._mount, os.fsencode(path), os.O_PATH | os.O_NOFOLLOW)
        except OSError:
            return None
        try:
            found = os.fstat(at)
            if found.st_ino != inode or not stat.S_ISREG(found.st_mode):
                return None
            return self.open_unheard(at)
        finally:
            os.close(at)


_ON_FOLDER = 0x40000000  # FAN_ONDIR, no event but a property of one

__all__ = ["Marks"]
