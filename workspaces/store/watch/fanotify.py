"""Events of a whole file system, by fanotify: which inodes were changed, and which files were opened.

Needs CAP_SYS_ADMIN and CAP_DAC_READ_SEARCH; `marks.Marks` is for who has neither. Events name inodes, not paths, so it
does not matter by which name, mount or descriptor a file is changed, or how often folders were renamed meanwhile.
"""

from __future__ import annotations

import ctypes
import os
import select
import struct
import threading
import time
from typing import TYPE_CHECKING

from .writers import Handle, has_writer, open_by_handle, open_to_ask, sync_file

if TYPE_CHECKING:
    from .watched import Watched

_libc = ctypes.CDLL(None, use_errno=True)
INIT = 0x200 | 0x2 | 0x1  # REPORT_FID, NONBLOCK, CLOEXEC
_UNLIMITED = 0x10  # the queue
_MARK_ADD, _MARK_FILESYSTEM = 0x1, 0x100
_MODIFY, _ATTRIB, _CLOSE_WRITE, OPEN = 0x2, 0x4, 0x8, 0x20
_MOVED, _CREATE, _DELETE, _ONDIR = 0x40 | 0x80, 0x100, 0x200, 0x40000000
CHANGES = _MODIFY | _ATTRIB | _CLOSE_WRITE | _MOVED | _CREATE | _DELETE | _ONDIR
_OVERFLOW = 0x4000
_HEAD = struct.Struct("<IBBHQii")  # length, version, reserved, length of this, mask, fd, pid
_HANDLE_AT = _HEAD.size + 4 + 8 + 8  # after the head: of the record, the file system's id, of the handle
_READ = 1 << 20
_AT_FDCWD = -100
_REST_S = 0.002  # between files that are asked ahead, for the process's other threads


def new_group(init: int) -> int:
    """Return the descriptor of a new group of marks and its queue. Raise OSError."""
    fd = _libc.fanotify_init(init, os.O_RDONLY | os.O_CLOEXEC)
    if fd < 0:
        raise last_error()
    return fd


def add_mark(group: int, fd: int, mask: int, *, scope: int = 0) -> None:
    """Ask for these events of what `fd` is open on, or of the whole `scope`; O_PATH is enough. Raise OSError."""
    path = f"/proc/self/fd/{fd}".encode()
    if _libc.fanotify_mark(group, _MARK_ADD | scope, ctypes.c_uint64(mask), _AT_FDCWD, path) != 0:
        raise last_error()


def last_error() -> OSError:
    """Return the error of this thread's last call of the C library."""
    code = ctypes.get_errno()
    return OSError(code, os.strerror(code))


class Kernel:
    """The events of the file system that holds an open folder, for all watched trees on it. Raise OSError if refused.

    A thread empties the queues and asks ahead for writers; `collect_changes` and `collect_opens` empty them at once.
    """

    how, why = "fanotify", "its changes are watched"
    limit = ""  # of the system, on what one user may mark
    is_shared, marks_entries = True, False
    hears_itself = False  # it does not tell opens of this process from others'
    pause_s = 1.0  # between two readings of a busy queue; meanwhile the kernel merges events

    def __init__(self, root: int):
        self.handle = self._handle_of(root)
        self._lock = threading.RLock()
        self._trees: list[Watched] = []
        self._mount = os.dup(root)
        self._changes = self._opens = -1
        try:
            self._ask(root)
        except OSError:
            self.close()
            raise
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._empty, name="store-watch", daemon=True)
        self._thread.start()

    def _handle_of(self, root: int) -> Handle:
        return Handle(root)

    def _ask(self, root: int) -> None:
        """Make the groups, whose queues grow as they must."""
        form = self.handle.form
        self._event = struct.Struct(f"<I20x20x{form[1:]}{self.handle.size - struct.calcsize(form)}x")
        self._changes = new_group(INIT | _UNLIMITED)
        add_mark(self._changes, root, CHANGES, scope=_MARK_FILESYSTEM)
        self._opens = new_group(INIT | _UNLIMITED)
        add_mark(self._opens, root, OPEN, scope=_MARK_FILESYSTEM)

    def add(self, tree: Watched) -> None:
        with self._lock:
            self._trees.append(tree)

    def remove(self, tree: Watched) -> bool:
        """Return whether no tree is left; the caller then closes this."""
        with self._lock:
            if tree in self._trees:
                self._trees.remove(tree)
            return not self._trees

    def close(self) -> None:
        if thread := getattr(self, "_thread", None):
            self._closing.set()
            if thread is not threading.current_thread():
                thread.join()
        for fd in {self._changes, self._opens, self._mount} - {-1}:
            os.close(fd)
        self._changes = self._opens = self._mount = -1

    # -- reading ---------------------------------------------------------------------------------------------------

    def collect_opens(self) -> None:
        """Pass on all opens until now. Changes are collected first: what is opened may have been made just now."""
        with self._lock:
            self._read(self._opens, self._pass_opens)

    def collect_changes(self) -> None:
        with self._lock:
            self._read(self._changes, self._pass_on)

    def mark(self, fd: int, *, opens: bool = False) -> None:
        """Ask for the events of one more inode, where `marks_entries`. Raise OSError if the kernel refuses that."""

    def has_writer(self, handle: bytes, *, sync: bool) -> bool:
        """Return whether a file that an event named may have a writer; with `sync`, its pages are on the disk then."""
        try:
            fd = self.open_file(handle)
        except OSError:
            return True  # it is looked at: who renamed it made its folders due; without descriptors nothing is known
        if fd is None:
            return False
        try:
            if not self.is_written(fd):
                return False
            if sync:
                sync_file(fd)  # the next store through a mapping then moves its ctime
            return True
        finally:
            os.close(fd)

    def open_unheard(self, at: int) -> int:
        """Open to read what an O_PATH descriptor names; where this `hears_itself`, `is_written` must be asked next."""
        return open_to_ask(f"/proc/self/fd/{at}")

    def is_written(self, fd: int) -> bool:
        """Return whether a file from `open_unheard` may have a writer."""
        return has_writer(fd)

    def open_file(self, handle: bytes) -> int | None:
        """Open a file that an event named, for reading; None if it is gone. Raise OSError where that is not known."""
        return open_by_handle(self._mount, self.handle.kind, handle)

    def _empty(self) -> None:
        poll = select.poll()
        for queue in {self._changes, self._opens}:
            poll.register(queue, select.POLLIN)
        is_busy = False
        while not self._closing.is_set():
            if poll.poll(0 if is_busy else 1000):
                self.collect_opens()
                self.collect_changes()
            # Also without an event: a snapshot may have left many to be asked.
            is_busy = self._ask_until(time.monotonic() + self.pause_s)

    def _ask_until(self, end: float) -> bool:
        """Ask opened files for writers until the queues are read again. Return whether there are still many."""
        while (left := end - time.monotonic()) > 0 and not self._closing.is_set():
            with self._lock:
                trees = list(self._trees)
            if not any(tree.ask_ahead(self) for tree in trees):
                self._closing.wait(left)
                return False
            self._closing.wait(_REST_S)
        return True

    def _read(self, fd: int, pass_on) -> None:
        while True:
            try:
                data = os.read(fd, _READ)
            except BlockingIOError:
                return
            except OSError as error:
                self._lose(f"the events could not be read: {error.strerror}")
                return
            pass_on(data)

    def _lose(self, why: str) -> None:
        for tree in self._trees:
            tree.lose(why)

    def _events(self, data: bytes):
        """Yield (pid, mask, handle) of each event of a file; an overflow makes all trees lose what they know."""
        at, form = 0, self.handle
        while at < len(data):
            length, _, _, _, mask, _, pid = _HEAD.unpack_from(data, at)
            if mask & _OVERFLOW:
                self._lose("the queue of events overflowed")
            elif length > _HANDLE_AT:
                yield pid, mask, data[at + _HANDLE_AT : at + _HANDLE_AT + form.size]
            else:
                self._lose("an event named no file")
            at += length

    def _inodes(self, data: bytes) -> set[int]:
        """Return the inodes of a buffer of events."""
        event = self._event
        if len(data) % event.size == 0:  # as it always is, but for an overflow: then all in one go
            found = set(event.iter_unpack(data))
            if all(length == event.size for length, _ in found):
                return {inode for _, inode in found}
        form = self.handle.form
        return {struct.unpack_from(form, handle)[0] for _, _, handle in self._events(data)}

    def _pass_on(self, data: bytes) -> None:
        if not self._trees:
            return
        inodes = self._inodes(data)
        for tree in self._trees:
            tree.note_changes(inodes)

    def _pass_opens(self, data: bytes) -> None:
        if not self._trees:
            return
        own, form = os.getpid(), self.handle.form
        known = self._inodes(data)
        for tree in self._trees:
            if not tree.knows_any(known):
                continue
            # This process writes by making new files, never through a mapping of one that a tree has.
            opened = {
                struct.unpack_from(form, handle)[0]: handle for pid, _, handle in self._events(data) if pid != own
            }
            tree.note_opens(opened)


__all__ = ["CHANGES", "INIT", "OPEN", "Kernel", "add_mark", "last_error", "new_group"]
