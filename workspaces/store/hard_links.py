"""The hard links that a scan finds: which files of the tree are one, whatever the inodes are."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from blake3 import blake3

if TYPE_CHECKING:
    from .node import Node


class HardLinks:
    """The entries with several links, by inode."""

    def __init__(self):
        self._noted: dict[int, list[tuple[bytes, Node, str, bytes]]] = {}

    def note(self, node: Node, name: str, inode: int, group: bytes) -> None:
        """Note an entry of a folder, and the group that its row has."""
        node.linked.append((name, inode, group))
        path = os.fsencode(node.path + "/" + name if node.path else name)
        self._noted.setdefault(inode, []).append((path, node, name, group))

    def regroup(self) -> bool:
        """Set each group's id from its first path, independent of inodes. Return True if any id changed."""
        renamed = False
        for noted in self._noted.values():
            members = {path: rest for path, *rest in noted}  # a folder that was visited twice counts once
            group = blake3(min(members)).digest(16) if len(members) > 1 else b""
            for node, name, known in members.values():
                if known != group:
                    node.groups[name] = group
                    renamed = True
        return renamed

    def groups(self) -> dict[bytes, list[bytes]]:
        """Return the paths of each group, by its id."""
        groups: dict[bytes, list[bytes]] = {}
        for noted in self._noted.values():
            paths = sorted({path for path, *_ in noted})
            if len(paths) > 1:
                groups[blake3(paths[0]).digest(16)] = paths
        return groups
