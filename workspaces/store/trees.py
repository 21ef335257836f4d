"""Live trees. A tree is opened for a time; what is open can be scanned, brought back to a snapshot, and recovered.

`remote.RemoteTree` is the same for a folder inside a guest.
"""

from __future__ import annotations

import os
import time
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from .beneath import open_root
from .durable import sync_tree, times_tell
from .errors import StoreError
from .scan import Scan

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from .attributes import Rules
    from .files import LocalFiles
    from .plan import Plan
    from .staging import Tick


class LocalTree:
    """A folder on this host. `cache` is the file of its stat cache; the store finds one by itself if it is None.

    `home` is another folder, whose single entries can be looked at as well.
    """

    def __init__(
        self,
        path: str | bytes | os.PathLike,
        cache: str | os.PathLike | None = None,
        home: str | os.PathLike | None = None,
    ):
        self.path = Path(os.fsdecode(path))
        self.cache = Path(cache) if cache is not None else None
        self.home = home

    @contextmanager
    def opened(self) -> Iterator[LocalLive]:
        """Open the folder once; from then on it is only reached through its descriptor."""
        try:
            fd = open_root(self.path)
        except FileNotFoundError as error:
            raise StoreError(f"there is no folder {self.path}") from error
        except NotADirectoryError as error:
            raise StoreError(f"{self.path} is not a folder") from error
        except PermissionError as error:
            raise StoreError(f"{self.path} may not be read") from error
        try:
            yield LocalLive(self.path, fd)
        finally:
            os.close(fd)

    @contextmanager
    def files(self, folder: str = "tree") -> Iterator[LocalFiles]:
        """Look at single entries for a while; OSError when the folder is not there."""
        from .files import LocalFiles

        fd = open_root(self.path if folder == "tree" else self.home)
        try:
            yield LocalFiles(fd)
        finally:
            os.close(fd)

    def recover(self, journal: str | os.PathLike) -> str | None:
        """Finish or take back a restore that was cut off; see `journal.recover`."""
        from .journal import recover  # here and below: a snapshot needs nothing of what writes trees

        return recover(journal)


class LocalLive:
    """A folder on this host while it is open; `root` is what a scan starts from."""

    def __init__(self, path: Path, root: int):
        self.path, self.root = path, root
        found = os.fstat(root)
        self.place = os.fsencode(os.path.realpath(path))
        self.identity = (self.place, found.st_dev, found.st_ino)
        self.euid, self.owner = os.geteuid(), (found.st_uid, found.st_gid)

    def begin(self) -> int:
        """Return the time by the clock of the tree, then sync: a store that the sync missed has a later ctime."""
        started_ns = time.time_ns()
        sync_tree(self.root)
        return started_ns

    def times_tell(self) -> bool:
        return times_tell(self.root)

    def scan(self, sink, cache, **options) -> Scan:
        return Scan(sink, cache, **options)

    def unfinished(self, journal: str | os.PathLike) -> bool:
        """Whether a restore was cut off here and has not been recovered."""
        from .journal import read_journal

        return read_journal(Path(journal)) is not None

    def carry_out(
        self, catalog, plan: Plan, rules: Rules, links: dict[bytes, list[bytes]], journal: str | os.PathLike, tick: Tick
    ) -> None:
        """Make the steps of a plan true: all of them, or after an error none."""
        from . import applying
        from .staging import Stage

        def build(stage_fd: int) -> Iterable[dict]:
            with closing(Stage(catalog, stage_fd, self.root, rules, plan.wanted, links, tick)) as stage:
                for number, step in enumerate(plan.steps):
                    if step.want is not None and not step.adjust:
                        stage.put(b"%d" % number, step.path, step.want)
                stage.build()
            return plan.drafts(rules)

        applying.apply(self.place, self.root, Path(journal), build)


__all__ = ["LocalLive", "LocalTree"]
