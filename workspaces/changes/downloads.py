"""The files of a snapshot and the commits of a workspace, as bytes that come piece by piece."""

import os
import threading
from collections.abc import Iterator
from contextlib import suppress
from functools import partial

from workspaces.changes.history import store_of
from workspaces.models import Snapshot, Workspace
from workspaces.operations import runner_client


def archive(snapshot: Snapshot) -> Iterator[bytes]:
    """Return an iterator over the snapshot's files as .tar.zst. Raises Problem now if the store cannot be opened."""
    return piped(partial(store_of(snapshot.workspace).archive, snapshot.tree_hex))


def piped(write) -> Iterator[bytes]:
    """Yield the bytes that `write(file)` writes; closing the iterator ends the writer with a broken pipe."""
    reading, writing = os.pipe()

    def fill():
        with suppress(BrokenPipeError), os.fdopen(writing, "wb") as out:
            write(out)

    threading.Thread(target=fill, daemon=True).start()
    try:
        while chunk := os.read(reading, 256 * 1024):
            yield chunk
    finally:
        os.close(reading)


def read_bundle(workspace: Workspace) -> Iterator[bytes]:
    """Return an iterator over the bytes of the workspace's newest git bundle."""
    return runner_client.pieces(workspace, "bundle")
