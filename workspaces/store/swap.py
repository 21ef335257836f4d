"""The part of a restore that runs where the tree is: staging folder, journal, and the exchange of entries.

Runs inside guests too, so it uses the standard library only.
"""

import os
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from .attributes import set_xattrs
from .errors import StoreError
from .file_system import sync_tree
from .journal import (
    APPLYING,
    CLEANING,
    STAGING,
    RolledBack,
    as_path,
    as_text,
    carry_out,
    finish,
    write_journal,
)
from .safe_open import open_beneath, stat_beneath

_MOST_OPEN = 100  # descriptors kept open for each thread
_STAGE_PREFIX = ".handrail-restore-"


def apply(place: bytes, tree_fd: int, journal: Path, build: Callable[[int], Iterable[dict]]) -> None:
    """Call `build` to fill the stage, then execute the steps that it returns (drafts without inode numbers).

    An error before the first entry of the tree is changed, and RolledBack, leave the tree as it was. After any other
    error the journal must be recovered.
    """
    with stage_folder(place, tree_fd, journal) as (stage, stage_fd):
        try:
            steps = list(_with_inodes(build(stage_fd), tree_fd, stage_fd))
            sync_tree(stage_fd)
            write_journal(journal, APPLYING, place, stage, steps)
        except BaseException:
            write_journal(journal, CLEANING, place, stage, [])
            finish(journal, stage)
            raise
        try:
            carry_out(tree_fd, stage_fd, steps)
        except RolledBack:
            write_journal(journal, CLEANING, place, stage, [])
            finish(journal, stage)
            raise
        except OSError as error:
            raise StoreError(f"the restore was interrupted and must be recovered: {error}") from error
        sync_tree(tree_fd)
        write_journal(journal, CLEANING, place, stage, [])
        finish(journal, stage)


@contextmanager
def stage_folder(target: bytes, tree_fd: int, journal: Path) -> Iterator[tuple[dict, int]]:
    """Create the staging folder on the tree's file system: beside the tree if possible, else inside it.

    Yield (its journal fields, its descriptor).
    """
    name = os.fsencode(f"{_STAGE_PREFIX}{os.urandom(16).hex()}")
    device = os.fstat(tree_fd).st_dev
    for parent in (os.path.dirname(target), target):
        if os.stat(parent).st_dev == device and os.access(parent, os.W_OK | os.X_OK):
            break
    else:
        raise StoreError(f"{os.fsdecode(target)} and its parent folder are not writable")
    stage = {"path": as_text(os.path.join(parent, name)), "inode": None, "uid": os.geteuid()}
    write_journal(journal, STAGING, target, stage, [])  # first: a crash must not leave an unrecorded stage
    fd = -1
    try:
        os.mkdir(as_path(stage["path"]), 0o700)
        fd = os.open(as_path(stage["path"]), os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        stage["inode"] = os.fstat(fd).st_ino
        _take_nothing_over(fd)
        yield stage, fd
    except BaseException:
        if fd < 0:
            finish(journal, stage)
        raise
    finally:
        if fd >= 0:
            os.close(fd)


def _take_nothing_over(fd: int) -> None:
    """Remove the setgid group and default ACLs that the stage inherited from its parent folder."""
    os.chown(fd, -1, os.getegid())
    os.chmod(fd, 0o700)
    set_xattrs(fd, ())


def _with_inodes(drafts: Iterable[dict], tree_fd: int, stage_fd: int) -> Iterator[dict]:
    """Add inode numbers to drafts of steps; recovery uses them to detect which steps were done."""
    for draft in drafts:
        if draft["do"] == "adjust":
            found = stat_beneath(tree_fd, as_path(draft["path"]))
            if stat.S_IFMT(found.st_mode) != draft["type"]:
                raise StoreError(f"{draft['path']!r} changed its type while the restore was prepared")
            yield {key: draft[key] for key in ("do", "path", "to", "from")} | {"inode": found.st_ino}
        elif draft["do"] == "place":
            inode = os.stat(draft["staged"], dir_fd=stage_fd, follow_symlinks=False).st_ino
            yield {"do": "place", "path": draft["path"], "staged": draft["staged"], "inode": inode}
            if wished := draft.get("locked"):
                # A folder without write permission cannot be moved, so its mode is set after the move.
                opened = [wished[0] | 0o700, *wished[1:]]
                os.chmod(draft["staged"], opened[0], dir_fd=stage_fd)
                yield {"do": "adjust", "path": draft["path"], "inode": inode, "to": wished, "from": opened}
        else:
            yield draft


class OpenFolders:
    """A cache of open folders of the stage; not thread-safe."""

    def __init__(self, stage_fd: int):
        self._stage_fd = stage_fd
        self._open: dict[bytes, int] = {}

    def open(self, path: bytes) -> int:
        fd = self._open.get(path)
        if fd is None:
            if len(self._open) >= _MOST_OPEN:
                os.close(self._open.pop(next(iter(self._open))))
            fd = self._open[path] = open_beneath(self._stage_fd, path, os.O_RDONLY | os.O_DIRECTORY)
        return fd

    def close(self) -> None:
        for fd in self._open.values():
            os.close(fd)
