"""List folders of a watched tree, and mark and ask what is new in them.

Runs inside guests too, so it uses the standard library only.
"""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

from ..stat_keys import KEY, list_folder
from .watched import WATCHED
from .writers import has_writer, open_to_ask, sync_file

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .watched import Hints, Watched

_PATH = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
_LISTINGS = 5  # of a folder in which others exchange entries meanwhile
FULL = "the system marks no more files for this user (%s)"

Listed = tuple[list[os.DirEntry], str, bytes]


class Listing:
    """The listings of one scan of a tree on `device`.

    An entry whose stat key is not that of the last snapshot is fresh: it is asked for a writer and, where the kernel
    wants that, marked; then it is listed once more, so that what is known of it is younger than its mark.
    """

    def __init__(self, watched: Watched, hints: Hints, device: int):
        self.watched, self.hints, self.device = watched, hints, device
        self.unmarked: set[str] = set()  # folders with an entry that could not be marked
        self.refused = ""  # why no more can be marked

    def list_folder(self, fd: int, path: str, known: dict[str, bytes]) -> Listed:
        """Return what `stat_keys.list_folder` does; `known` are the keys of the last snapshot by name."""
        kernel, asked = self.watched.kernel, {}
        if kernel.marks_entries:
            kernel.collect_changes()  # what this scan opens itself fills the queue
        self._mark(path, fd)
        for _ in range(_LISTINGS):
            listing = list_folder(fd)
            fresh = [entry for entry in _differing(listing, known) if asked.get(entry.name) != entry.inode()]
            for entry in fresh:
                asked[entry.name] = self._ask(fd, path, entry)
            if not fresh or not kernel.marks_entries:
                return listing
        self.unmarked.add(path)
        return listing

    def _ask(self, fd: int, folder: str, entry: os.DirEntry) -> int | None:
        """Mark a fresh entry, and ask a file for a writer. Return the inode; None if it is gone or cannot be marked."""
        kernel = self.watched.kernel
        is_file = entry.is_file(follow_symlinks=False)
        if not is_file and not kernel.marks_entries:
            return entry.inode()
        if kernel.marks_entries and self.hints.mode == WATCHED and entry.is_dir(follow_symlinks=False):
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
                self.watched.found_writer(os.fstat(file).st_ino, kernel.handle.of(file))
            return os.fstat(file).st_ino
        finally:
            os.close(file)

    def _mark(self, folder: str, fd: int, *, opens: bool = False) -> None:
        """Mark an open entry, or make its folder due in each snapshot."""
        if self.refused or not self.watched.kernel.marks_entries:
            return
        try:
            if os.fstat(fd).st_dev != self.device:
                raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
            self.watched.kernel.mark(fd, opens=opens)
        except OSError as error:
            self.unmarked.add(folder)
            if error.errno == errno.ENOSPC:
                self.refused = FULL % self.watched.kernel.limit


def _differing(listing: Listed, known: dict[str, bytes]) -> Iterator[os.DirEntry]:
    """Yield the entries that have another stat key than is known of their name."""
    entries, _, keys = listing
    for number, entry in enumerate(entries):
        if known.get(entry.name) != keys[number * KEY.size : number * KEY.size + KEY.size]:
            yield entry


__all__ = ["FULL", "Listing"]
