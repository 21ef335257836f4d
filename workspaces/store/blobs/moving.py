"""Copy a store from a folder into a bucket. Ids, pack numbers and index segments stay as they are."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from blake3 import blake3

from ..errors import StoreError
from ..index.head import Head
from . import Changed

if TYPE_CHECKING:
    from ..progress import Watch
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
        names = {}
        watch.total_bytes = sum(head.packs.values())
        for number, size in sorted(head.packs.items()):
            data = folder.pack(head, number).read(0, size)
            names[number] = f"{blake3(data).hexdigest(16)}-copied.pack"
            if there.get(names[number]) != size:
                bucket.client.put(f"packs/{names[number]}", data)
            watch.tick(0, size)
        segments = [bucket.put_segment(folder.segment(name).read_bytes()) for name in head.segments]
        holds = {tree.hex(): bucket.clock() + 3600 for tree in folder.held(head)}
        made = head._replace(id=store_id or os.urandom(16).hex(), names=names, segments=segments, holds=holds)
        watch.check()
        try:
            bucket.client.create("head", made.encode())
        except Changed:
            raise StoreError(f"{bucket.address} already has a store") from None
    return made
