"""The host's side of a tree that is watched beside its files, in a guest or a pod.

The watch there knows which folders may have changed; what they had at the last snapshot is known here, so that the two
together are what `Watched` is for a tree of this host. They agree on a mark, renewed with each snapshot that is kept:
one that the guest does not know makes it say BASELINE, and everything is walked.
"""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING, ClassVar

from ..errors import StoreError
from ..file_reader import make_row
from ..objects import XATTRS
from ..watch.hinted import Hinted
from ..watch.watched import BASELINE, PROOF, WATCHED, Hints, Watched
from .protocol import FILL, READ, Closed
from .scan import RemoteScan

if TYPE_CHECKING:
    from ..node import Node
    from .client import RemoteLive
    from .protocol import Stat

OLDER = "the file server in the guest is an older one"
GUEST = "guest"
_SAID = 200  # characters of a reason that are kept


class GuestWatched(Watched):
    """A tree as it was at the last snapshot; `kernel` stays None, for the events are the guest's."""

    def __init__(self, **options):
        super().__init__(**options)
        self._mark = ""
        self._live: RemoteLive | None = None
        self._is_open = False  # a snapshot has begun, and was neither settled nor undone
        self._undoes = False  # the guest has not heard yet that the last one was not kept

    def knows(self) -> bool:
        return self.how == GUEST and bool(self.folders) and not self._lost

    def scan(self, live, sink, known, stamp, *, thorough, prove, holds) -> WatchedGuestScan | None:
        if self.folders and not holds(self.folders[""].tree):
            self.lose("a collection removed the last snapshot")
        if self._is_open:
            self.lose("the last snapshot came to no end")
        is_due = prove or thorough or self._since_proof + 1 >= self.proof_every
        started = self._ask(live, stamp, is_due)
        if started is None:
            return None
        hints, started_ns = started
        if hints.mode != WATCHED:
            started_ns = live.begin()
        self._live, self._is_open = live, True
        self._since_proof += 1
        cache = known() if hints.mode == BASELINE else known(self.folders)
        how = {"thorough": thorough, "started_ns": started_ns}
        return WatchedGuestScan(sink, cache, live=live, watched=self, hints=hints, **how)

    def _ask(self, live: RemoteLive, stamp: tuple, prove: bool) -> tuple[Hints, int] | None:
        """Ask the guest how to look; None where nothing is watched."""
        if off := (self.why if self.alarms else self.off) or ("" if live.watches else OLDER):
            self.how, self.why = "off", off
            return None
        if is_lost := bool(self._lost) or stamp != self._stamp:
            self._mark = os.urandom(16).hex()
        self._lost, self._stamp = self._lost or "the guest did not answer", stamp
        said = live.ask({"do": "watch", "mark": self._mark, "prove": prove, "undo": self._undoes})
        self._undoes = False
        if not self._take(said):
            return None
        mode = said.get("mode")
        if mode not in (BASELINE, PROOF, WATCHED) or (is_lost and mode != BASELINE) or (prove and mode == WATCHED):
            raise Closed("the guest answered a question about its watch with nonsense")
        self._lost = ""
        return Hints(mode), int(said["started_ns"])

    def _take(self, said: dict) -> bool:
        """Take over how the guest watches. Return whether it does."""
        self.why = str(said.get("why"))[:_SAID]
        self.how = "off" if said.get("how") == "off" else GUEST
        return self.how == GUEST

    def undo(self, hints: Hints) -> None:
        """Note that the snapshot was not kept; the guest hears of it with the next one."""
        self._is_open, self._live, self._undoes = False, None, True
        if hints.mode == BASELINE:
            self.lose("the first snapshot was not kept")

    def settle(self, hints: Hints, scan: WatchedGuestScan) -> list[str]:
        differing = sorted(scan.differing(self.folders)) if hints.mode == PROOF else []
        self._mark, self._lost = os.urandom(16).hex(), "the guest did not hear of the last snapshot"
        body = b"\0".join(_that_fit(differing))
        live, self._live, self._is_open = self._live, None, False
        try:
            said = live.ask({"do": "settle", "mark": self._mark}, body)
        except (OSError, StoreError):
            return []  # the snapshot is stored all the same, and the next one walks
        if hints.mode == WATCHED:
            self._update(scan)
        else:
            self._replace(scan)
            self._since_proof = 0
        self._lost = ""
        missed = sorted(set(differing) & set(map(str, said.get("missed") or ())))
        if not self._take(said) and not missed:
            self.refuse(self.why)
        return missed


class WatchedGuestScan(Hinted, RemoteScan):
    """One pass; the guest lists what its watch names, and what is new to it."""

    how_listed: ClassVar[dict] = {"watched": True}

    def _list_all(self):
        self._inodes: dict[bytes, int] = {}
        found = super()._list_all()
        if self.hints.mode == WATCHED:
            paths = {os.fsdecode(path): listing.status for path, listing in found[0].items()}
            self.hints.dirty = {path for path, status in paths.items() if status == READ}
            self.hints.below = paths.keys() - self.hints.dirty  # also those that could not be entered
        return found

    def _told(self, said, told):
        told, inodes = list(told), said.get("inodes") or []
        if not isinstance(inodes, list) or len(told) != len(inodes):
            raise Closed("the guest sent an invalid listing")
        self._inodes |= {path: int(inode) for (path, _), inode in zip(told, inodes, strict=True)}
        return super()._told(said, iter(told))

    def _inode(self, at: bytes) -> int:
        return self._inodes[at]

    def _row(self, fd, node, text, name, found, known, twin, depth):
        path = f"{node.path}/{text}" if node.path else text
        if known is None and self._is_left(node, path, found):
            extras = self.sink.folder(node.old.tree).find(name).extras  # a change of them would have made it due
            extras = {tag: value for tag, value in extras.items() if tag == XATTRS}
            row = make_row(name, found, self._cached[path].tree, extras=extras)
            self._keep(node, text)
            return row, found, found.st_ctime_ns < self._limit_ns
        return super()._row(fd, node, text, name, found, known, twin, depth)

    def _is_left(self, node: Node, path: str, found: Stat) -> bool:
        """Return whether it is a folder that the guest did not list, since what is below is as it was."""
        if not self._trusts or node.path not in self._vouched or os.fsencode(path) in self._listings:
            return False
        return stat.S_ISDIR(found.st_mode) and self.watched.inode_of.get(path) == found.st_ino


def _that_fit(paths: list[str]) -> list[bytes]:
    """Return as many paths as fit into one frame."""
    found, size = [], 0
    for path in map(os.fsencode, paths):
        size += len(path) + 1
        if size > 4 * FILL:
            break
        found.append(path)
    return found


__all__ = ["GUEST", "GuestWatched"]
