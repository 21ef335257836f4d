"""Write a tree that is another one with some entries changed. Folders without a change are not read."""

from collections.abc import Iterable
from typing import NamedTuple

from . import blocks
from .objects import FILE, FOLDER, Entry, Row, encode_folder
from .writer import Writer

_AS_IT_IS = object()


class _Node:
    """What changes at a path and below it."""

    __slots__ = ("below", "folder", "leaf")

    def __init__(self):
        self.below: dict[bytes, _Node] = {}
        self.leaf = self.folder = _AS_IT_IS


class _Counted(NamedTuple):
    """A folder that was written: its id, and the entries and bytes below it."""

    content: bytes
    entries: int
    bytes: int


def overlay(
    writer: Writer, root: Entry, leaves: dict[bytes, Entry | None], folders: dict[bytes, Entry | None], like: Entry
) -> str:
    """Write the tree and return its id.

    `leaves`: by path, an entry that is no folder, or None where there is none any more. `folders`: the attributes of
    a folder; None removes it if it is empty then. A folder that is missing, and the root, get the attributes of `like`.
    """
    top = _Node()
    for path, entry in leaves.items():
        _at(top, path).leaf = entry
    for path, entry in folders.items():
        _at(top, path).folder = entry
    counted = _Overlay(writer, like).folder(top, {entry.name: entry for entry in writer.folder(root.content)})
    place = Row(b"", like.record(), dict(like.extras))
    place.point_at(counted.content)
    return writer.add(encode_folder([place], counted.entries, counted.bytes), kind=blocks.META).hex()


def _at(top: _Node, path: bytes) -> _Node:
    for name in path.split(b"/"):
        top = top.below.setdefault(name, _Node())
    return top


class _Overlay:
    def __init__(self, writer: Writer, like: Entry):
        self.writer, self.like = writer, like

    def folder(self, node: _Node, entries: dict[bytes, Entry]) -> _Counted:
        for name, below in node.below.items():
            entry = self._entry(name, below, entries.get(name))
            if entry is None:
                entries.pop(name, None)
            else:
                entries[name] = entry
        return self._written(entries.values())

    def _entry(self, name: bytes, node: _Node, here: Entry | None) -> Entry | None:
        if isinstance(node.leaf, Entry):
            return node.leaf._replace(name=name)
        is_folder = here is not None and here.kind == FOLDER
        if here is not None and (not here.kept if is_folder else node.leaf is _AS_IT_IS):
            return here
        entries = {entry.name: entry for entry in self.writer.folder(here.content)} if is_folder else {}
        counted = self.folder(node, entries)
        if not entries and (node.folder is None or (node.folder is _AS_IT_IS and not is_folder)):
            return None
        attributes = node.folder if isinstance(node.folder, Entry) else here if is_folder else self.like
        return attributes._replace(name=name, content=counted.content)

    def _written(self, found: Iterable[Entry]) -> _Counted:
        rows, count, size = [], 0, 0
        for entry in sorted(found, key=lambda entry: entry.name):
            rows.append(Row(entry.name, entry.record(), dict(entry.extras)))
            if entry.kept:
                count, size = count + 1, size + (entry.size if entry.kind == FILE else 0)
                if entry.kind == FOLDER:
                    below = self.writer.folder(entry.content)
                    count, size = count + below.entries_below, size + below.bytes_below
        return _Counted(self.writer.add(encode_folder(rows, count, size), kind=blocks.META), count, size)
