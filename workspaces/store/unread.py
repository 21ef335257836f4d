"""The files of a scan whose content is known without reading them."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

from .file_reader import make_row
from .objects import FILE, TORN, UNKEPT, XATTRS

if TYPE_CHECKING:
    from collections.abc import Callable

    from .file_reader import Inspect, Reader
    from .made import Made
    from .objects import Entry, Row


class Unread:
    """A part of `Scan`: what proves the content of a file by its stat, besides the stat cache."""

    shared: Callable[[os.stat_result], Entry | None] | None
    made: Made | None
    inspect: Inspect | None
    thorough: bool
    _reader: Reader

    def _row_unread(self, fd, name, found, twin) -> Row | None:
        """Return the row of a file whose content is known without reading it, else None."""
        return (
            self._row_of_shared(name, found)
            or self._row_of_made(fd, name, found)
            or self._row_of_twin(fd, name, found, twin)
        )

    def _row_of_made(self, fd, name, found) -> Row | None:
        """Return the row of a file as a restore made it, else None. What `inspect` has to see is read."""
        known = self.made.content(found) if self.made and not self.inspect and not self.thorough else None
        if known is None:
            return None
        content, flags = known
        return make_row(name, found, content, flags=flags, extras=self._reader.named_xattrs(fd, name))

    def _row_of_shared(self, name: bytes, found: os.stat_result) -> Row | None:
        """Return a row with the content of the entry that a file is proved to be, without reading it."""
        entry = self.shared(found) if self.shared else None
        if entry is None:
            return None
        extras = {tag: value for tag, value in entry.extras.items() if tag == XATTRS}
        return make_row(name, found, entry.content, flags=entry.flags, extras=extras)

    def _row_of_twin(self, fd: int, name: bytes, found: os.stat_result, twin: Entry | None) -> Row | None:
        """Return a row with the content of a twin of equal size and mtime, else None. Full comparisons have no twin."""
        if twin is None or twin.kind != FILE or twin.flags & (TORN | UNKEPT) or not stat.S_ISREG(found.st_mode):
            return None
        if (twin.size, twin.mtime_ns) != (found.st_size, found.st_mtime_ns):
            return None
        return make_row(name, found, twin.content, flags=twin.flags, extras=self._reader.named_xattrs(fd, name))


__all__ = ["Unread"]
