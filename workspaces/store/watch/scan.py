"""Scan a watched tree of this host."""

from __future__ import annotations

import os

from ..scan import Scan
from .hinted import Hinted
from .listing import Listing


class WatchedScan(Hinted, Scan):
    """One pass; what it lists it marks, and asks for writers."""

    _listing: Listing | None = None  # until the scan runs

    def _prepare(self, root: int) -> None:
        super()._prepare(root)
        self._listing = Listing(self.watched, self.hints, self._device)

    def _inode(self, fd: int) -> int:
        return os.fstat(fd).st_ino

    def _list_folder(self, fd, node):
        return self._listing.list_folder(fd, node.path, self._known_keys(node))

    def _known_keys(self, node) -> dict[str, bytes]:
        """Return the stat keys of a folder's entries at the last snapshot, by name; none where they prove nothing."""
        if node.old is None or node.path not in self._vouched or node.path in self.watched.unmarked:
            return {}
        return node.old.key_of_each()

    @property
    def unmarked(self) -> set[str]:
        return self._listing.unmarked

    def remember(self) -> None:
        super().remember()
        self._give_up()

    def forget(self) -> None:
        super().forget()
        self._give_up()

    def _give_up(self) -> None:
        if self._listing is not None and self._listing.refused and not self.watched.alarms:
            self.watched.refuse(self._listing.refused)


__all__ = ["WatchedScan"]
