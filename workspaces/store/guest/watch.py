"""The watch of a tree beside its files: it keeps what may have changed, and the host asks for that alone.

Runs inside guests, so it uses the standard library only. The host names each kept snapshot by a new mark. A watch that
does not know the mark, since it began later or is an earlier one that a rollback of the memory brought back, makes the
host walk.
"""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING

from ..watch.watched import Watched
from .canary import missed_writer
from .walk import WatchedWalk

if TYPE_CHECKING:
    from ..watch import Hints
    from .protocol import Wire


_NAMED = 100  # missed changes that the host is told of: one is an alarm, and a frame has an end


class Proven(Watched):
    """A watch that first tries its source of events out, beside the tree."""

    def __init__(self, beside: str):
        super().__init__(proof_every=sys.maxsize)  # the host says when to prove
        self._beside = beside

    def _join(self, root: int) -> bool:
        is_new = self.kernel is None
        if not super()._join(root) or not is_new:
            return self.kernel is not None
        try:
            what = missed_writer(type(self.kernel), self._beside)
        except OSError as error:  # as on a full disk; the next snapshot tries it again
            self.close(f"the kernel could not be tried out: {error.strerror or error}")
            return False
        if what:
            self.refuse(f"the kernel does not tell of {what}")
        return not what

    def renew(self, mark: str) -> None:
        """Go by this mark of the host until the next snapshot."""
        self._stamp = mark


class TreeWatch:
    """Answers what the host asks of the watch of one open tree; nothing is watched before it asks."""

    def __init__(self, wire: Wire, root: int, place: bytes, journal: os.PathLike):
        self.wire, self.root, self.place = wire, root, place
        self.watched = Proven(os.path.dirname(os.path.abspath(journal)))
        self.hints: Hints | None = None
        self.scan: WatchedWalk | None = None

    def begin(self, head: dict, body: bytes) -> None:
        """Send how the tree is watched, and in which mode this snapshot is to be; `started_ns` is the guest's clock."""
        if head["undo"] and self.hints is not None:
            self.watched.undo(self.hints)
        self.scan, started_ns = None, time.time_ns()
        self.hints = self.watched.begin(self.root, os.fsdecode(self.place), head["mark"], prove=head["prove"])
        mode = self.hints.mode if self.hints is not None else None
        self._say(mode=mode, started_ns=started_ns)

    def walk(self, device: int) -> WatchedWalk:
        """Return a new pass by the hints of the snapshot that has begun."""
        self.scan = WatchedWalk(self.root, device, self.watched, self.hints)
        return self.scan

    def open_unheard(self, at: int, name: bytes) -> int | None:
        """Open a file to read it, where each open of this process would be asked about; None where none is."""
        kernel = self.watched.kernel
        if kernel is None or not kernel.hears_itself:
            return None
        path = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=at)
        try:
            fd = kernel.open_unheard(path)
        finally:
            os.close(path)
        if kernel.is_written(fd):
            self.watched.found_writer(os.fstat(fd).st_ino, kernel.handle.of(fd))
        return fd

    def settle(self, head: dict, body: bytes) -> None:
        """Take over what the last pass found; send the paths of the body of which no event was heard."""
        hints, scan = self.hints, self.scan
        self.hints = self.scan = None
        scan.named = os.fsdecode(body).split("\0") if body else []
        missed = self.watched.settle(hints, scan)
        self.watched.renew(head["mark"])
        if missed:
            self.watched.fail(missed)
        elif scan.listing.refused:
            self.watched.refuse(scan.listing.refused)
        self._say(missed=missed[:_NAMED])

    def _say(self, **more) -> None:
        self.wire.send({"end": True, "how": self.watched.how, "why": self.watched.why, **more})
