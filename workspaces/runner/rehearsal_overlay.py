"""The files of a rehearsal as an overlay: the snapshot, mounted from the store, below a folder for what changes.

Nothing is copied, and nobody can change what is shared: a tree of the store never changes. The program works on the
merged folder, which is scanned like any other afterwards. What an overlay cannot show as a copy would is copied:
hard links, of which a change parts the names, holes, which FUSE does not tell, and access lists.
"""

import ctypes
import os
import stat
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from workspaces.store import LocalTree, Store, StoreError
from workspaces.store.attributes import Rules, set_on
from workspaces.store.content import pieces_of
from workspaces.store.mount import process
from workspaces.store.mount.snapshot_folder import INODES, SnapshotFolder
from workspaces.store.mount.unmounting import unmount
from workspaces.store.objects import FILE, FOLDER, LISTED, TORN, XATTRS, Entry

_MS_NOSUID, _MS_NODEV = 2, 4
# Folders can be renamed as anywhere, an entry has one number and one device in both layers, and no sync is waited for.
_OPTIONS = "redirect_dir=on,xino=on,index=off,metacopy=off,volatile"
_MARGIN_NS = 1_000_000_000  # of two clocks of one kernel
_ACCESS_LIST = b"system.posix_acl"
_laid: dict[Path, "_Laid"] = {}  # by the scratch folder


class _Laid(NamedTuple):
    """A mounted overlay: who serves the layer below, and the stored files by their inode numbers there."""

    process: subprocess.Popen
    files: dict[int, Entry]
    since_ns: int

    def shared(self, found: os.stat_result) -> Entry | None:
        """Return the stored file that an unchanged file of the merged folder is, else None.

        Whatever changes a file first makes a copy in the upper layer, whose ctime the kernel sets to the time of that.
        The ctime of a file below is its mtime.
        """
        entry = self.files.get(found.st_ino & INODES) if found.st_ino > INODES and stat.S_ISREG(found.st_mode) else None
        if entry is None or not found.st_ctime_ns == found.st_mtime_ns == entry.mtime_ns < self.since_ns:
            return None
        return entry if found.st_size == entry.size else None


def is_possible(driver) -> bool:
    """Return whether this driver's programs can see an overlay of ours, and this process may mount one.

    Only root may: the kernel lets no overlay of an ordinary user rename a folder of the lower layer.
    """
    return driver.capabilities.shows_snapshots and os.geteuid() == 0 and not process.why_not()


def lay(
    store: Store,
    tree_id: str,
    scratch: Path,
    owner: tuple[int, int],
    options: list[str],
    keys: Sequence = (),
    mounted: Callable[[], None] = lambda: None,
) -> bool:
    """Mount the tree at `scratch/tree`, writable. Return False, with nothing left behind, where a copy is needed.

    `options` and `keys` are those of `mount.process.start`. `mounted()` is called before the overlay is laid over the
    mounted snapshot.
    """
    since_ns = time.time_ns() - _MARGIN_NS
    if (files := _files(store, tree_id)) is None:
        return False
    for name in ("lower", "upper", "work", "tree"):
        (scratch / name).mkdir(mode=0o755, parents=True)
    try:
        options = ["--owner", *map(str, owner), *options]
        served = process.start(store.path, tree_id, scratch / "lower", options, keys=keys)
        _laid[scratch] = _Laid(served, files, since_ns)
        mounted()
        _set_root(store, tree_id, scratch / "upper", owner)
        _mount(scratch)
    except (StoreError, OSError):
        lift(scratch)
        for name in ("lower", "upper", "work", "tree"):
            (scratch / name).rmdir()
        return False
    return True


def lift(scratch: Path) -> None:
    """Unmount what `lay` mounted, in this process or in one that was killed."""
    unmount(scratch / "tree")
    unmount(scratch / "lower")
    if laid := _laid.pop(scratch, None):
        process.end(laid.process, scratch / "lower")


def tree(scratch: Path) -> LocalTree:
    """Return the files of the rehearsal: of an overlay, or of a copy."""
    found = LocalTree(scratch / "tree", cache=scratch / "scan")
    if laid := _laid.get(scratch):
        found.shared = laid.shared
    return found


def _files(store: Store, tree_id: str) -> dict[int, Entry] | None:
    """Return the files of a tree by their inode numbers, or None if an overlay would not show all that a copy does."""
    folder = SnapshotFolder(store, tree_id)
    files, stack = {}, [b"/"]
    while stack:
        at = stack.pop()
        above = at if at == b"/" else at + b"/"
        for name, entry in folder.entries(at).items():
            if entry.link or _ACCESS_LIST in entry.extras.get(XATTRS, b""):
                return None
            if entry.kind == FOLDER:
                stack.append(above + name)
            elif entry.kind == FILE:
                if _has_holes(store, entry):
                    return None
                if not entry.flags & TORN:
                    files[folder.inode(above + name, entry)] = entry
    return files


def _has_holes(store: Store, entry: Entry) -> bool:
    return bool(entry.flags & LISTED) and any(content is None for _, content in pieces_of(store.catalog, entry))


def _set_root(store: Store, tree_id: str, upper: Path, owner: tuple[int, int]) -> None:
    """Give the upper layer's root the attributes of the tree's, which it stands for."""
    root = store.root(tree_id)
    fd = os.open(upper, os.O_RDONLY | os.O_DIRECTORY)
    try:
        set_on(fd, Rules(os.geteuid(), root.uid, (root.uid, root.gid, *owner)).attributes(root))
    finally:
        os.close(fd)


def _mount(scratch: Path) -> None:
    opened = [os.open(scratch / name, os.O_PATH | os.O_DIRECTORY) for name in ("lower", "upper", "work")]
    try:
        layers = zip(("lowerdir", "upperdir", "workdir"), opened, strict=True)
        # By descriptor, so that no character of a path is read as an option.
        options = ",".join([*(f"{name}=/proc/self/fd/{fd}" for name, fd in layers), _OPTIONS])
        libc = ctypes.CDLL(None, use_errno=True)
        flags = ctypes.c_ulong(_MS_NOSUID | _MS_NODEV)
        if libc.mount(b"handrail", os.fsencode(scratch / "tree"), b"overlay", flags, options.encode()) != 0:
            raise OSError(ctypes.get_errno(), f"overlay: {os.strerror(ctypes.get_errno())}")
    finally:
        for fd in opened:
            os.close(fd)
