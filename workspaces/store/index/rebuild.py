"""Rebuild the head and the index from the packs alone, for a store that has lost them."""

import os
from pathlib import Path
from typing import NamedTuple

from .. import blocks
from ..atomic_write import replace_file
from ..content import pieces_of
from ..errors import Damaged, StoreError
from ..lock import writing
from ..objects import EMPTY, FILE, FOLDER, LISTED, decode_folder
from ..progress import Watch
from .catalog import Catalog, Head
from .segment import Place, encode_segment

_HEAD_BYTES = 1 << 16


class Reindexed(NamedTuple):
    """Counts of a rebuild; `dropped` objects are left out because an object below them is missing."""

    packs: int
    objects: int
    trees: int
    dropped: int


def reindex(path: str | os.PathLike, watch: Watch | None = None) -> Reindexed:
    """Read every pack and publish a new head and index. A pack ends at the first bytes that are not a whole block.

    Damaged objects are left out of the index, so that a snapshot of a tree that still has them stores them again.
    """
    watch = watch or Watch()
    store = Path(path)
    if not (store / "format").exists():
        raise StoreError(f"there is no store at {store}")
    with writing(store):
        packs: dict[int, int] = {}
        places: dict[bytes, Place] = {}
        meta: set[bytes] = set()
        files = sorted((store / "packs").glob("*.pack"))
        watch.total_bytes = sum(found.stat().st_size for found in files)
        for found in files:
            packs[int(found.stem)] = _read_pack(found, int(found.stem), places, meta, watch)
        watch.check()  # the last chance to cancel: from here on the store is changed
        _publish(store, packs, places)
        catalog = Catalog(store)
        whole, roots = _closed(catalog, places, meta)
        dropped = len(places) - len(whole)
        if dropped:
            _publish(store, packs, {content: place for content, place in places.items() if content in whole})
        for found in (store / "index").iterdir():
            if found.name not in Head.decode((store / "head").read_bytes()).segments:
                found.unlink()
    return Reindexed(len(packs), len(whole), roots, dropped)


def _publish(store: Path, packs: dict[int, int], places: dict[bytes, Place]) -> None:
    name = f"{os.urandom(16).hex()}.idx"
    replace_file(store / "index" / name, encode_segment(places))
    head = Head(next_pack=max(packs, default=0) + 1, packs=packs, segments=[name])
    replace_file(store / "head", head.encode())


def _read_pack(path: Path, number: int, places: dict[bytes, Place], meta: set[bytes], watch: Watch) -> int:
    """Add every object of a pack to `places` and `meta`; return the length that consists of whole blocks."""
    at, size = 0, path.stat().st_size
    with open(path, "rb", buffering=0) as file:
        while at < size:
            where = f"the block at {at} of {path.name}"
            try:
                info = blocks.read_header(os.pread(file.fileno(), _HEAD_BYTES, at), where)
                data = os.pread(file.fileno(), info.length, at)
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
            for content, offset, length in blocks.table(data, info):
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
