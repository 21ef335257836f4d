"""Rebuild the head and the index from the packs alone, for a store that has lost them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from .. import blocks
from ..blobs import Changed
from ..blobs import at as blobs_at
from ..content import pieces_of
from ..errors import Damaged, StoreError
from ..objects import EMPTY, FILE, FOLDER, LISTED, decode_folder
from ..progress import Watch
from .catalog import Catalog
from .segment import Place, encode_segment

if TYPE_CHECKING:
    import os

    from ..blobs import Blobs, Pack, Read
    from ..sealing import Keys
    from .head import Head

_HEAD_BYTES = 1 << 16


class Reindexed(NamedTuple):
    """Counts of a rebuild; `dropped` objects are left out because an object below them is missing."""

    packs: int
    objects: int
    trees: int
    dropped: int


def reindex(path: str | os.PathLike | Blobs, watch: Watch | None = None, **where) -> Reindexed:
    """Read every pack and publish a new head and index. A pack ends at the first bytes that are not a whole block.

    Damaged objects are left out of the index, so that a snapshot of a tree that still has them stores them again.
    `where` as for `blobs.at`.
    """
    watch, blobs = watch or Watch(), blobs_at(path, **where)
    blobs.remains()  # refuses a place without a store before anything is made there
    with blobs.writing():
        read, head = blobs.remains()
        packs: dict[int, int] = {}
        places: dict[bytes, Place] = {}
        meta: set[bytes] = set()
        watch.total_bytes = sum(head.packs.values())
        for number in sorted(head.packs):
            packs[number] = _read_pack(blobs.original(head, number, full=True), number, places, meta, watch, blobs.keys)
        newest = blobs.keys.newest()
        watch.check()  # the last chance to cancel: from here on the store is changed
        read, head = _publish(
            blobs, read, head._replace(packs=packs, key=newest.id.hex() if newest else head.key), places
        )
        catalog = Catalog(blobs)
        catalog.refresh()
        whole, roots = _closed(catalog, places, meta)
        dropped = len(places) - len(whole)
        if dropped:
            places = {content: place for content, place in places.items() if content in whole}
            read, head = _publish(blobs, read, head, places)
        blobs.tidy(head)
    return Reindexed(len(packs), len(whole), roots, dropped)


def _publish(blobs: Blobs, read: Read, head: Head, places: dict[bytes, Place]) -> tuple[Read, Head]:
    after = head._replace(segments=[blobs.put_segment(encode_segment(places))], generation=head.generation + 1)
    after = blobs.leaving(head, after)
    try:
        return blobs.swap_head(read, after.encode()), after
    except Changed:
        raise StoreError("somebody wrote to the store meanwhile; try again") from None


def _read_pack(pack: Pack, number: int, places: dict[bytes, Place], meta: set[bytes], watch: Watch, keys: Keys) -> int:
    """Add every object of a pack to `places` and `meta`; return the length that consists of whole blocks."""
    at, size = 0, pack.size()
    while at < size:
        where = f"the block at {at} of {pack.name}"
        try:
            info = blocks.read_header(pack.read(at, _HEAD_BYTES), where)
            data = pack.read(at, info.length)
            if len(data) < info.length:
                break
        except Damaged:
            break
        watch.tick(0, info.length)
        try:
            blocks.check_block(data, where)
        except Damaged:
            at += info.length  # its length was plausible, so the next block may be whole
            continue
        for content, offset, length in blocks.table(data, info, keys, where):
            places[content] = Place(number, at, info.length, offset, length)
            if info.kind == blocks.META:
                meta.add(content)
        at += info.length
    return at


def _closed(catalog: Catalog, places: dict[bytes, Place], meta: set[bytes]) -> tuple[set[bytes], int]:
    """Return the objects that are stored with everything below them, and how many of them are roots."""
    whole: dict[bytes, bool] = {EMPTY: True}
    roots = 0

    def is_whole(content: bytes) -> bool:
        if content not in whole:
            whole[content] = content in places and (content not in meta or below_is_whole(content))
        return whole[content]

    def below_is_whole(content: bytes) -> bool:
        nonlocal roots
        try:
            data = catalog.blob(content)
            if data[:2] != b"HT":
                return True  # a list of pieces; its folder's check covers the pieces
            folder = decode_folder(data)
            needs = [entry.content for entry in folder if entry.kind in (FILE, FOLDER) and entry.kept]
            for entry in folder:
                if entry.kind == FILE and entry.kept and entry.flags & LISTED and is_whole(entry.content):
                    needs += [piece for _, piece in pieces_of(catalog, entry) if piece]
        except (StoreError, OSError):
            return False
        complete = all(is_whole(need) for need in needs)
        roots += complete and folder.names == [b""]
        return complete

    for content in places:
        is_whole(content)
    return {content for content, complete in whole.items() if complete and content in places}, roots
