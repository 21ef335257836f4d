"""Copy a store from a folder into a bucket. Ids and pack numbers stay as they are.

If the bucket has a key, blocks that are not encrypted yet are encrypted on the way, and get other places.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from blake3 import blake3

from .. import blocks
from ..errors import Damaged, StoreError
from ..index.head import Head
from ..index.segment import Segment, encode_segment
from . import Changed

if TYPE_CHECKING:
    from ..progress import Watch
    from ..sealing import Key
    from .bucket import BucketBlobs
    from .folder import FolderBlobs


def copy_to_bucket(folder: FolderBlobs, bucket: BucketBlobs, watch: Watch) -> Head:
    """Copy what the folder's head names; the folder stays. Raise StoreError if the bucket already has a store.

    A copy that was cut off can begin again: packs have their bytes' hash as a name here, since nothing was removed yet.
    """
    store_id = folder.identity()
    with folder.writing():
        head = Head.decode(folder.head().data)
        there = {found.name: found.size for found in bucket.client.ls("packs")}
        key, names, sizes, moves = bucket.keys.newest(), {}, {}, {}
        watch.total_bytes = sum(head.packs.values())
        for number, size in sorted(head.packs.items()):
            data = folder.pack(head, number).read(0, size)
            if key is not None:
                data, moves[number] = _sealed(key, data, folder.name_of(head, number))
            sizes[number] = len(data)
            names[number] = f"{blake3(data).hexdigest(16)}-copied.pack"
            if there.get(names[number]) != len(data):
                bucket.client.put(f"packs/{names[number]}", data)
            watch.tick(0, size)
        segments = [bucket.put_segment(_segment(folder, name, moves)) for name in head.segments]
        holds = {tree.hex(): bucket.clock() + 3600 for tree in folder.held(head)}
        fields = {"id": store_id or os.urandom(16).hex(), "names": names, "packs": sizes, "segments": segments}
        made = head._replace(**fields, holds=holds, key=key.id.hex() if key else head.key)
        watch.check()
        try:
            bucket.client.create("head", made.encode())
        except Changed:
            raise StoreError(f"{bucket.address} already has a store") from None
    return made


def _sealed(key: Key, data: bytes, name: str) -> tuple[bytes, dict[int, tuple[int, int]]]:
    """Return a pack with all blocks encrypted, and {offset of a block: (its new offset, its new length)}."""
    made, moves, at, new = [], {}, 0, 0
    while at < len(data):
        where = f"the block at {at} of {name}"
        length = blocks.read_header(data[at : at + blocks.HEADER.size], where).length
        if at + length > len(data):
            raise Damaged(f"{where} is truncated")
        made.append(blocks.sealed_block(key, data[at : at + length], where))
        moves[at] = (new, len(made[-1]))
        at, new = at + length, new + len(made[-1])
    return b"".join(made), moves


def _segment(folder: FolderBlobs, name: str, moves: dict[int, dict[int, tuple[int, int]]]) -> bytes:
    if not moves:
        return folder.segment(name).read_bytes()
    places = {}
    for content, place in Segment(folder.segment(name)).items():
        block, length = moves[place.pack][place.block]
        places[content] = place._replace(block=block, block_length=length)
    return encode_segment(places)
