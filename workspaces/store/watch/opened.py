"""Which files of a watched tree were opened, and which of them have a writer: such a file may change without an event.

Asking takes some 35 µs for each file, so where many were opened, as by a search through all of them, they are asked
between the snapshots. A snapshot that comes before that only looks at those that are left: who writes to a file first
moves its ctime, and a file with another stat than at the last snapshot is asked by the scan. Between two snapshots
a file is asked once, since asking opens it, which another watcher of the tree would answer by asking.
"""

from __future__ import annotations

import threading
from itertools import islice
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .fanotify import Kernel

MOST = 4_000  # files that a snapshot asks by itself
FEW = 500  # files that are left to the next snapshot
AT_ONCE = 200  # files that are asked ahead while a snapshot would have to wait for that


class Opened:
    """The opened files of one tree that are to be asked, and `writers`, by inode with their handles. Thread-safe."""

    def __init__(self):
        self.writers: dict[int, bytes] = {}
        self._files: dict[int, bytes] = {}
        self._asked: set[int] = set()  # ahead, since the last snapshot
        self._again: dict[int, bytes] = {}  # opened after they were asked ahead
        self._lock = threading.Lock()
        self._asking = threading.Lock()  # held from the moment that files are taken until it is known who has a writer

    def note(self, files: dict[int, bytes]) -> None:
        with self._lock:
            again = files.keys() & self._asked
            self._again.update((inode, files[inode]) for inode in again)
            self._files.update((inode, files[inode]) for inode in files.keys() - again)

    def note_writer(self, inode: int, handle: bytes) -> None:
        with self._lock:
            self.writers[inode] = handle

    def forget(self) -> None:
        with self._lock:
            for known in (self._files, self._asked, self._again, self.writers):
                known.clear()

    def ask(self, kernel: Kernel) -> set[int]:
        """Ask what was opened since the last time, and what had a writer then, at the beginning of a snapshot.

        Return the inodes to look at: those that have or had a writer, whose pages are on the disk now, and those that
        were too many to ask. Changes must be collected afterwards: who has closed a file before it was asked has raised
        an event, and who opens it after the opens were read is among those of the next time.
        """
        with self._asking:
            kernel.collect_opens()
            with self._lock:
                before, self.writers = self.writers, {}
                files, self._again = self._files | self._again, {}
                left = files.keys() - before.keys() if len(files) > MOST else set()
                asked = before if left else before | files
                self._files = {inode: files[inode] for inode in left}
                self._asked.clear()
            found = {inode: handle for inode, handle in asked.items() if kernel.has_writer(handle, sync=True)}
            with self._lock:
                self.writers |= found
        return found.keys() | before.keys() | left

    def ask_ahead(self, kernel: Kernel) -> bool:
        """Ask some of the files, if there are many. Return whether there are still many.

        What has a writer is asked again by the next snapshot, so nothing is written to the disk for it here.
        """
        with self._asking:
            with self._lock:
                if len(self._files) <= FEW:
                    return False
                some = {inode: self._files.pop(inode) for inode in list(islice(self._files, AT_ONCE))}
                self._asked |= some.keys()
            found = {inode: handle for inode, handle in some.items() if kernel.has_writer(handle, sync=False)}
            with self._lock:
                self.writers |= found
                return len(self._files) > FEW


__all__ = ["Opened"]
