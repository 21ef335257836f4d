"""What a scan notes of each folder, and what a snapshot says of its scan."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from .objects import Row
    from .stat_keys import CachedFolder


class Skipped(NamedTuple):
    """An entry that is missing from the snapshot or not stored consistently, and the reason."""

    path: bytes
    reason: str


class LookedAt(NamedTuple):
    """How many entries a snapshot looked at: by walking, and because watching named their folder."""

    walked: int
    watched: int


class Node:
    """One folder of the walk. `rows` is None while the folder is not known to differ from its last snapshot."""

    __slots__ = (
        "bytes", "children", "entries", "groups", "id", "inode", "inodes", "kept", "keys", "linked", "names", "old",
        "path", "rows", "same", "sealed", "skipped",
    )  # fmt: skip

    def __init__(self, path: str, old: CachedFolder | None):
        self.path, self.old = path, old
        self.rows: list[Row] | None = None
        self.sealed = False  # its id is known for good, and its rows are in the sink alone
        self.same = False  # it and everything below it are unchanged, except possibly for hard-link groups
        self.children: list[tuple[str, Node]] = []
        self.kept: list[str] = []  # folders below that were not visited: they are as in the last snapshot
        self.inode, self.inodes = 0, None  # its own, and those of its entries, where a scan needs them
        self.groups: dict[str, bytes] = {}  # hard-link groups that differ from those of the rows
        self.linked: list[tuple[str, int, bytes]] = []
        self.skipped: list[tuple[str, str]] = []
        self.names, self.keys = "", b""
        self.id, self.entries, self.bytes = b"", 0, 0
