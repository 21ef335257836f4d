"""The files that a restore has just made: the next snapshot of the tree does not read them.

What is in the stage of a restore nobody else writes, and once it is in the tree, whatever writes to a file moves its
ctime past that moment. So a file with the stat that it had when it was made has the bytes that it was made of.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from .objects import TORN
from .scan import RACY_NS
from .stat_keys import KEY, pack_keys

if TYPE_CHECKING:
    from .index.catalog import Catalog
    from .objects import Entry


class Made:
    """The files of one restore of the tree `tree_id`, by inode. `content` knows nothing before `leave_stage`."""

    def __init__(self, tree_id: bytes):
        self.tree_id = tree_id
        self._files: dict[int, bytes] = {}  # the stat key, the content id, the flags
        self._limit_ns = 0

    def still_in(self, catalog: Catalog) -> Made | None:
        """Return this if the store has the restored tree still, with all that lies below it; None after its removal."""
        return self if catalog.holds(self.tree_id) else None

    def note(self, fd: int, entry: Entry) -> None:
        """Note a file that has got all its bytes and attributes; from any thread."""
        if not entry.flags & TORN:
            found = os.fstat(fd)
            self._files[found.st_ino] = b"%b%b%c" % (pack_keys([found]), entry.content, entry.flags)

    def leave_stage(self) -> None:
        """Note the time before which nobody else could write to the files."""
        self._limit_ns = time.time_ns() - RACY_NS

    def content(self, found: os.stat_result) -> tuple[bytes, int] | None:
        """Return the content id and the flags of a file that is proved to be as it was made, else None."""
        known = self._files.get(found.st_ino)
        if known is None or found.st_ctime_ns >= self._limit_ns or known[: KEY.size] != pack_keys([found]):
            return None
        return known[KEY.size : -1], known[-1]


__all__ = ["Made"]
