"""Events of one tree by inotify, for programs that may not use fanotify, as in a container.

Each file and folder has a watch, for the reasons given in `marks`. inotify does not say who opened a file, so what is
asked for a writer is opened while its opens are not listened to; the lease keeps writers out until they are again.
"""

from __future__ import annotations

import ctypes
import os
import stat
import struct

from .fanotify import last_error
from .marks import Marks
from .writers import has_writer

_libc = ctypes.CDLL(None, use_errno=True)
_MODIFY, _ATTRIB, _CLOSE_WRITE, _OPEN, _MOVED, _CREATE, _DELETE = 0x2, 0x4, 0x8, 0x20, 0x40 | 0x80, 0x100, 0x200
_OF_FOLDER = _ATTRIB | _MOVED | _CREATE | _DELETE  # what is written to its files is an event of theirs, too
_OF_FILE = _MODIFY | _ATTRIB | _CLOSE_WRITE
_UNMOUNT, _OVERFLOW, _IGNORED = 0x2000, 0x4000, 0x8000
_EVENT = struct.Struct("=iIII")  # number of the watch, mask, cookie, length of the name


class Inodes:
    """Name files by their inodes alone, where the kernel gives no handles; with the interface of `writers.Handle`."""

    form, size = "<Q", 8

    def of(self, fd: int) -> bytes:
        return struct.pack(self.form, os.fstat(fd).st_ino)


class Inotify(Marks):
    """The events of the inodes that a scan has marked, in a queue that may overflow."""

    how, why = "inotify", "its files and folders are watched one by one, by inotify"
    limit = "fs.inotify.max_user_watches"
    hears_itself = True
    pause_s = 0.02  # the queue has an entry for each event, where fanotify merges those of an inode

    def _handle_of(self, root: int) -> Inodes:
        return Inodes()

    def _ask(self, root: int) -> None:
        self._changes = self._opens = _libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self._changes < 0:
            raise last_error()
        self._names: dict[str, dict[int, str]] = {}
        self._inode_at: dict[int, int] = {}  # by the number of the watch
        self.mark(root)

    def mark(self, fd: int, *, opens: bool = False) -> None:
        self._watch(fd, _OF_FILE | _OPEN if opens else _OF_FILE)

    def _watch(self, fd: int, of_file: int) -> None:
        found = os.fstat(fd)
        mask = _OF_FOLDER if stat.S_ISDIR(found.st_mode) else of_file
        with self._lock:  # else an event of the new number could be read before the number is known
            number = _libc.inotify_add_watch(self._changes, f"/proc/self/fd/{fd}".encode(), mask)
            if number < 0:
                raise last_error()
            self._inode_at[number] = found.st_ino

    def open_unheard(self, at: int) -> int:
        self._watch(at, _OF_FILE)  # `is_written` listens again
        try:
            return super().open_unheard(at)
        except OSError:
            self.mark(at, opens=True)
            raise

    def is_written(self, fd: int) -> bool:
        """Ask for the lease, and listen to opens again before it is given back; with a writer it is asked each time."""

        def listen():
            self.mark(fd, opens=True)

        try:
            if not has_writer(fd, listen):
                return False
            listen()
        except OSError:
            pass  # what cannot be listened to counts as written
        return True

    def _pass_on(self, data: bytes) -> None:
        changed: set[int] = set()
        opened: dict[int, bytes] = {}
        at = 0
        while at < len(data):
            number, mask, _, length = _EVENT.unpack_from(data, at)
            at += _EVENT.size + length
            if mask & _OVERFLOW:
                self._lose("the queue of events overflowed")
            elif mask & _UNMOUNT:
                self._lose("its file system was unmounted")
            elif mask & _IGNORED:
                self._inode_at.pop(number, None)  # the inode is gone
            elif (inode := self._inode_at.get(number)) is None:
                self._lose("an event named no file")
            elif mask & _OPEN:
                opened[inode] = struct.pack(Inodes.form, inode)
            else:
                changed.add(inode)
        for tree in self._trees:
            tree.note_changes(changed)
            tree.note_opens(opened)


__all__ = ["Inotify"]
