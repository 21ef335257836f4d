"""The mount point of a driver in a tree: an empty file at .handrail/manifest.json, which is not part of the tree.

A driver mounts a file of its own over it, read-only, and needs an entry to mount over. Where nothing can be mounted, in
a connected folder, the content is written there (`put`); it is known by its digest. A file with other content, with
extended attributes or with a second link is the user's own, and is handled like any other; so is everything else in
the folder. A folder that holds only the mount point is not part of the tree either. Standard library only.
"""

import hashlib
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import suppress

from .files import Found, LocalFiles
from .safe_open import open_beneath, split_path

FOLDER, NAME = ".handrail", "manifest.json"
PATH = b".handrail/manifest.json"
MODE = 0o444
WRITTEN = f"{NAME}.new"  # until it is whole
MAX_BYTES = 4 << 20  # of content that is read to know its digest
Shown = Callable[[], frozenset[str]]  # the SHA-256 of each content that may have been put there
_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def hidden(fd: int, path: str, shown: Shown | None = None) -> str:
    """Return the name of the entry of an open folder that is not part of its tree, or ""."""
    if path == FOLDER:
        return NAME if _is_mount_point(fd, shown) else ""
    if path != "":
        return ""
    try:
        below = os.open(FOLDER, _FOLDER_FLAGS, dir_fd=fd)
    except OSError:
        return ""
    try:
        return FOLDER if os.listdir(below) == [NAME] and _is_mount_point(below, shown) else ""
    except OSError:
        return ""
    finally:
        os.close(below)


def make(root: str | os.PathLike, owner: int) -> bool:
    """Create the mount point unless it exists; return False if something else is in its place.

    The times of the folders stay. New entries belong to `owner` (uid and gid), set only when running as root.
    """
    fd = os.open(root, _FOLDER_FLAGS)
    try:
        before = os.fstat(fd)
        made = _make_folder(fd, (owner, owner))
        below = os.open(FOLDER, _FOLDER_FLAGS, dir_fd=fd)
        try:
            _make_file(below, owner)
            found = _is_mount_point(below)
        finally:
            os.close(below)
        if made:
            os.utime(fd, ns=(before.st_atime_ns, before.st_mtime_ns))
        return found
    except OSError:
        return False
    finally:
        os.close(fd)


def write(root: str | os.PathLike, content: bytes, owner: tuple[int, int], shown: Shown) -> bool:
    """Write the content in place of an earlier one, atomically; return False if something else is there.

    The times of the folders stay. New entries belong to `owner` (uid, gid), set only when running as root.
    """
    fd = os.open(root, _FOLDER_FLAGS)
    try:
        before = os.fstat(fd)
        made = _make_folder(fd, owner)
        below = os.open(FOLDER, _FOLDER_FLAGS, dir_fd=fd)
        try:
            done = _put_file(below, content, owner, shown)
        finally:
            os.close(below)
        if made:
            os.utime(fd, ns=(before.st_atime_ns, before.st_mtime_ns))
        return done
    except OSError:
        return False
    finally:
        os.close(fd)


def take_away(root: str | os.PathLike, shown: Shown) -> None:
    """Remove the mount point, or the content that was put there, and its folder if nothing else is in it."""
    fd = os.open(root, _FOLDER_FLAGS)
    try:
        before = os.fstat(fd)
        below = os.open(FOLDER, _FOLDER_FLAGS, dir_fd=fd)
        try:
            if not _is_mount_point(below, shown):
                return
            inside = os.fstat(below)
            os.unlink(NAME, dir_fd=below)
            os.utime(below, ns=(inside.st_atime_ns, inside.st_mtime_ns))
            is_empty = not os.listdir(below)
        finally:
            os.close(below)
        if is_empty:
            os.rmdir(FOLDER, dir_fd=fd)
            os.utime(fd, ns=(before.st_atime_ns, before.st_mtime_ns))
    finally:
        os.close(fd)


class FilesOfTree(LocalFiles):
    """The entries of a tree on this host, without a driver's mount point."""

    def __init__(self, root: int, shown: Shown | None = None):
        super().__init__(root)
        self.shown = shown

    def entries(self, path: bytes) -> Iterator[tuple[bytes, Found]]:
        name = self._hidden_in(b"/".join(split_path(path)))
        return ((entry, found) for entry, found in super().entries(path) if entry != name)

    def _hidden_in(self, path: bytes) -> bytes:
        if path not in (b"", FOLDER.encode()):
            return b""
        fd = open_beneath(self.root, path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            return hidden(fd, path.decode(), self.shown).encode()
        finally:
            os.close(fd)


def _make_folder(fd: int, owner: tuple[int, int]) -> bool:
    try:
        os.mkdir(FOLDER, 0o755, dir_fd=fd)
    except FileExistsError:
        return False
    if os.geteuid() == 0:
        os.chown(FOLDER, *owner, dir_fd=fd, follow_symlinks=False)
    return True


def _make_file(below: int, owner: int) -> None:
    before = os.fstat(below)
    try:
        file = os.open(NAME, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, MODE, dir_fd=below)
    except FileExistsError:
        return
    try:
        if os.geteuid() == 0:
            os.fchown(file, owner, owner)
    finally:
        os.close(file)
    os.utime(below, ns=(before.st_atime_ns, before.st_mtime_ns))


def _put_file(below: int, content: bytes, owner: tuple[int, int], shown: Shown) -> bool:
    before = os.fstat(below)
    if NAME in os.listdir(below) and not _is_mount_point(below, shown):
        return False
    with suppress(FileNotFoundError):  # left by one that was killed
        os.unlink(WRITTEN, dir_fd=below)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with open(os.open(WRITTEN, flags, 0o644, dir_fd=below), "wb") as file:
        file.write(content)
        if os.geteuid() == 0:
            os.fchown(file.fileno(), *owner)
    os.rename(WRITTEN, NAME, src_dir_fd=below, dst_dir_fd=below)
    os.utime(below, ns=(before.st_atime_ns, before.st_mtime_ns))
    return True


def _is_mount_point(folder: int, shown: Shown | None = None) -> bool:
    """Return whether NAME in an open folder is a file that holds nothing of anybody's: none, or what was put there."""
    try:
        found = os.stat(NAME, dir_fd=folder, follow_symlinks=False)
        attributes = os.listxattr(f"/proc/self/fd/{folder}/{NAME}", follow_symlinks=False)
    except OSError:
        return False
    is_plain = stat.S_ISREG(found.st_mode) and found.st_nlink == 1
    if not is_plain or any(name.startswith("user.") for name in attributes):
        return False
    return found.st_size == 0 or (shown is not None and found.st_size <= MAX_BYTES and _is_shown(folder, shown))


def _is_shown(folder: int, shown: Shown) -> bool:
    """Return whether the content is one that was put there. The digests are asked after the file was read."""
    try:
        fd = os.open(NAME, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    except OSError:
        return False
    with open(fd, "rb") as file:
        return hashlib.sha256(file.read(MAX_BYTES + 1)).hexdigest() in shown()
