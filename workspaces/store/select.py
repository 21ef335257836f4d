"""Store a tree that has only some entries of another one. No content is copied: only two new folder objects."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from . import blocks
from .errors import StoreError
from .objects import FILE, FOLDER, Entry, Row, encode_folder
from .writer import Writer


class Selected(NamedTuple):
    """The new tree, and what is in it."""

    tree: str
    entries: int
    bytes: int


def selected(writer: Writer, root: Entry, found: list[Entry]) -> Selected:
    """Write a tree whose top folder has these entries, by their own names. Raise StoreError if two have one name."""
    counts = Counter(entry.name for entry in found)
    if twice := next((name for name, count in counts.items() if count > 1), None):
        raise StoreError(f"two of them are named {twice.decode(errors='replace')}")
    entries = size = 0
    rows = []
    for entry in sorted(found, key=lambda each: each.name):
        if not entry.kept or entry.kind not in (FILE, FOLDER):
            raise StoreError(f"{entry.name.decode(errors='replace')} is not a stored file or folder")
        entries += 1
        size += entry.size if entry.kind == FILE else 0
        if entry.kind == FOLDER:
            below = writer.folder(entry.content)
            entries, size = entries + below.entries_below, size + below.bytes_below
        row = Row(entry.name, entry.record(), dict(entry.extras))
        row.group(b"")  # its hard links are elsewhere
        rows.append(row)
    top = writer.add(encode_folder(rows, entries, size), kind=blocks.META)
    place = Row(b"", root.record(), dict(root.extras))
    place.point_at(top)
    tree = writer.add(encode_folder([place], entries, size), kind=blocks.META)
    return Selected(tree.hex(), entries, size)
