"""A read-only tree backed by a snapshot: of an archived workspace, or a guest at rest, whose disk cannot be reached."""

from collections.abc import Iterator
from contextlib import contextmanager

from workspaces.drivers.base import DriverError
from workspaces.store import Snapshot, StoreError
from workspaces.store.kept_files import KeptFiles


class KeptTree:
    """The tree of a snapshot, with the interface of a live tree. Writes fail with EROFS."""

    def __init__(self, store, head):
        self.store, self.tree_id, self.watched = store, head.tree_hex, None
        self.snapshot = Snapshot(head.tree_hex, head.entries, head.bytes, 0, [], 0.0)

    @contextmanager
    def files(self, folder: str = "tree") -> Iterator["KeptFiles"]:
        if folder != "tree":
            raise DriverError("The workspace isn't running.")
        yield KeptFiles(self.store, self.tree_id)

    @contextmanager
    def tree_and_home(self) -> Iterator[tuple["KeptFiles", None]]:
        """Open the tree; a snapshot has no home."""
        with self.files() as files:
            yield files, None

    def recover(self, journal: object = None) -> None:
        """Do nothing: a snapshot needs no recovery."""

    @contextmanager
    def opened(self):
        raise StoreError("the workspace is not up")
        yield
