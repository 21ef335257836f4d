"""Progress reports and cancellation of long operations."""

import threading
from collections.abc import Callable
from typing import NamedTuple

from .errors import Cancelled


class Progress(NamedTuple):
    """Entries and bytes done so far; totals are None if unknown."""

    entries: int
    bytes: int
    total_entries: int | None = None
    total_bytes: int | None = None


Report = Callable[[Progress], None]


class Watch:
    """Count progress and report it to a callback; raise Cancelled once `cancel` is set."""

    def __init__(
        self,
        report: Report | None = None,
        cancel: threading.Event | None = None,
        total_entries: int | None = None,
        total_bytes: int | None = None,
    ):
        self.report, self.cancel = report, cancel
        self.entries = self.bytes = 0
        self.total_entries, self.total_bytes = total_entries, total_bytes

    def check(self) -> None:
        if self.cancel is not None and self.cancel.is_set():
            raise Cancelled("cancelled; nothing was stored")

    def tick(self, entries: int = 0, size: int = 0) -> None:
        self.check()
        self.entries += entries
        self.bytes += size
        if self.report:
            self.report(Progress(self.entries, self.bytes, self.total_entries, self.total_bytes))
