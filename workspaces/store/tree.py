"""Live trees on this host: open, scan, restore to a snapshot, and recover after a crash.

`guest.client.RemoteTree` has the same interface for a folder inside a guest.
"""

from __future__ import annotations

import os
import time
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from .errors import StoreError
from .file_system import is_ctime_trusted, sync_tree
from .safe_open import open_root
from .scan import Scan

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from .attributes import Rules
    from .file_reader import LeavesOut
    from .files import LocalFiles
    from .lending import Lender
    from .made import Made
    from .mount_point import Shown
    from .objects import Entry
    from .plan import Plan
    from .staging import Tick
    from .watch import Watched


class LocalTree:
    """A folder on this host. `cache` is the file of its stat cache; None: a file in the store's `caches` folder.

    `home` is a second folder whose entries `files("home")` can access. `rules`, if set, is asked at each scan which
    entries are left out of snapshots, and untouched by a restore. `shown`, if set, returns the digests of what was put
    at the mount point (`mount_point.write`). `watched`, if set, knows what may have changed since the last snapshot.
    `shared`, if set, returns the stored entry that a file is proved by its stat to be, so that it is not read.
    `made`, if set, are the files of the last restore through this object, which the next snapshot need not read.
    `is_mapped`: programs may write to its files through shared mappings, so the file system is synced before a scan.
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
        self.rules: Callable[[], LeavesOut | None] | None = None
        self.shown: Shown | None = None
        self.watched: Watched | None = None
        self.is_mapped = True
        self.shared: Callable[[os.stat_result], Entry | None] | None = None
        self.made: Made | None = None

    @contextmanager
    def opened(self) -> Iterator[LocalLive]:
        """Open the folder; all further access goes through its descriptor. Raise StoreError if it cannot be opened."""
        try:
            fd = open_root(self.path)
        except FileNotFoundError as error:
            raise StoreError(f"there is no folder {self.path}") from error
        except NotADirectoryError as error:
            raise StoreError(f"{self.path} is not a folder") from error
        except PermissionError as error:
            raise StoreError(f"{self.path} cannot be read: permission denied") from error
        try:
            yield LocalLive(self.path, fd, is_mapped=self.is_mapped)
        finally:
            os.close(fd)

    @contextmanager
    def files(self, folder: str = "tree") -> Iterator[LocalFiles]:
        """Open the tree, or `home` if `folder` is not "tree", to access single entries. Raise OSError if missing."""
        from .files import LocalFiles
        from .mount_point import FilesOfTree

        fd = open_root(self.path if folder == "tree" else self.home)
        try:
            yield FilesOfTree(fd, self.shown) if folder == "tree" else LocalFiles(fd)
        finally:
            os.close(fd)

    @contextmanager
    def tree_and_home(self) -> Iterator[tuple[LocalFiles, LocalFiles | None]]:
        """Open both for access to single entries; None for a home that is missing."""
        with ExitStack() as stack:
            tree, home = stack.enter_context(self.files()), None
            if self.home is not None:
                with suppress(OSError):
                    home = stack.enter_context(self.files("home"))
            yield tree, home

    def recover(self, journal: str | os.PathLike) -> str | None:
        """Finish or roll back an interrupted restore; see `journal.recover`."""
        from .journal import recover  # here and below: not needed by a snapshot

        return recover(journal)


class LocalLive:
    """An open folder on this host; `root` is its descriptor, where a scan starts."""

    def __init__(self, path: Path, root: int, *, is_mapped: bool = True):
        self.path, self.root, self.is_mapped = path, root, is_mapped
        found = os.fstat(root)
        self.place = os.fsencode(os.path.realpath(path))
        self.identity = (self.place, found.st_dev, found.st_ino)
        self.euid, self.owner = os.geteuid(), (found.st_uid, found.st_gid)
        self.lender: Lender | None = None  # of a restore
        self.made: Made | None = None  # by a restore

    def begin(self) -> int:
        """Return the tree's clock in Unix ns, then sync: a write that the sync missed has a later ctime."""
        started_ns = time.time_ns()
        if self.is_mapped:
            sync_tree(self.root)
        return started_ns

    def is_ctime_trusted(self) -> bool:
        return is_ctime_trusted(self.root)

    def scan(self, sink, cache, **options) -> Scan:
        return Scan(sink, cache, **options)

    def unfinished(self, journal: str | os.PathLike) -> bool:
        """Return True if a restore was interrupted and has not been recovered."""
        from .journal import read_journal

        return read_journal(Path(journal)) is not None

    def carry_out(
        self, catalog, plan: Plan, rules: Rules, links: dict[bytes, list[bytes]], journal: str | os.PathLike, tick: Tick
    ) -> None:
        """Execute the steps of a plan atomically: all of them, or none after an error."""
        from . import swap
        from .staging import Stage

        def build(stage_fd: int) -> Iterable[dict]:
            given = (catalog, stage_fd, self.root, rules, plan.wanted, links, tick, self.lender, self.made)
            with closing(Stage(*given)) as stage:
                for number, step in enumerate(plan.steps):
                    if step.want is not None and not step.adjust:
                        stage.put(b"%d" % number, step.path, step.want)
                stage.build()
            if self.made is not None:
                self.made.leave_stage()
            return plan.drafts(rules)

        swap.apply(self.place, self.root, Path(journal), build)


__all__ = ["LocalLive", "LocalTree"]
