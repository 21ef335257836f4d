"""Write again what a transaction counts on and a collection on another host has removed meanwhile.

The id of an unchanged folder stands for everything below it, so a snapshot does not read that again. Where a collection
came between, the objects are copied from the packs of the older view, which stay for a day after they left the head.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import blocks
from .errors import StoreError
from .objects import EMPTY, FILE, FOLDER, LISTED, decode_folder, decode_list

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .index.catalog import View
    from .writer import Writer


def write_again(writer: Writer, view: View, tree: bytes | None) -> None:
    """Add to a transaction what it needs and `view`, the newer one, lacks. Raise StoreError if that is gone too."""
    stack = [(tree, blocks.META)] if tree else []
    for data in list(writer.fresh.values()):
        if data is not None:
            stack.extend(references(data))
    copied = False
    while stack:
        content, kind = stack.pop()
        if content in writer.fresh or view.find(content):
            continue
        data, copied = _from_before(writer, content), True
        writer.copy(data, kind, content)
        if kind == blocks.META:
            stack.extend(references(data))
    if copied:
        writer.flush()


def references(data: bytes) -> Iterator[tuple[bytes, int]]:
    """Yield (object id, block kind) of each object that a folder or a list names."""
    if data[:2] != b"HT":
        yield from ((piece, blocks.DATA) for _, piece in decode_list(data) if piece)
        return
    for entry in decode_folder(data):
        if entry.kept and entry.kind in (FILE, FOLDER) and entry.content != EMPTY:
            yield entry.content, blocks.META if entry.kind == FOLDER or entry.flags & LISTED else blocks.DATA


def _from_before(writer: Writer, content: bytes) -> bytes:
    try:
        if place := writer.view.find(content):
            return writer.catalog.blob_at(content, place, writer.view)
    except FileNotFoundError:
        pass
    raise StoreError("a collection removed what this builds on, while it was being written; try again")
