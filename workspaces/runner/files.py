"""List, read, write and delete live files of a workspace beneath its folder, safely while its programs run.

A tree comes from tree_access.py: a folder of this host, one in a guest, or the newest snapshot of a guest at rest.
"""

import errno
import stat
from contextlib import contextmanager

from dashboard.problems import Problem, conflict, invalid, not_found
from workspaces.store import safe_open
from workspaces.store.files import Found

PIECE = 1 << 20
_TYPES = {
    stat.S_IFREG: "file",
    stat.S_IFDIR: "folder",
    stat.S_IFLNK: "symlink",
    stat.S_IFIFO: "fifo",
    stat.S_IFSOCK: "socket",
    stat.S_IFCHR: "device",
    stat.S_IFBLK: "device",
}
_WORDS = {
    errno.ENOENT: lambda: not_found("file"),
    errno.ENOTDIR: lambda: not_found("file"),
    errno.ELOOP: lambda: invalid("The path goes through a symlink; only files inside the workspace are opened."),
    errno.EXDEV: lambda: invalid("The path leads out of the workspace."),
    errno.EISDIR: lambda: conflict("This is a folder."),
    errno.EEXIST: lambda: conflict("There is something other than a regular file at this path."),
    errno.EROFS: lambda: conflict("The workspace isn't running, so its files can't be changed."),
    errno.ESTALE: lambda: conflict("The file was replaced while being read."),
    errno.EACCES: lambda: Problem(403, "The file's permissions do not allow that."),
    errno.EPERM: lambda: Problem(403, "The file's permissions do not allow that."),
    errno.ENAMETOOLONG: lambda: invalid("The name is too long."),
    errno.ENOSPC: lambda: Problem(507, "The disk is full; nothing was changed."),
    errno.EDQUOT: lambda: Problem(507, "The disk quota is used up; nothing was changed."),
    errno.EFBIG: lambda: Problem(413, "The file is too large."),
}


@contextmanager
def in_words():
    """Turn an OSError or BadPath into a Problem with a message for people."""
    try:
        yield
    except safe_open.BadPath as error:
        raise invalid(f"That path isn't inside the workspace: {error}.") from None
    except OSError as error:
        raise (_WORDS[error.errno]() if error.errno in _WORDS else invalid(f"{error.strerror}.")) from None


def listing(tree, path: bytes) -> list[tuple[bytes, str, Found, bytes]] | None:
    """Return (name, type, lstat, symlink target) of a folder's entries, by name; None if the path is not a folder."""
    with in_words(), tree.files() as files:
        if not stat.S_ISDIR(files.stat(path).st_mode):
            return None
        found = sorted((name, _TYPES[stat.S_IFMT(info.st_mode)], info) for name, info in files.entries(path))
        return [(*entry, _target(files, path, entry[0]) if entry[1] == "symlink" else b"") for entry in found]


def _target(files, folder: bytes, name: bytes) -> bytes:
    try:
        return files.readlink(folder + b"/" + name if folder else name)
    except OSError:  # replaced meanwhile
        return b""


def size(tree, path: bytes) -> tuple[int, int]:
    """Return the size of a regular file in bytes, and how many hard links it has."""
    with opened(tree, path) as file:
        return file.info.st_size, file.info.st_nlink


@contextmanager
def opened(tree, path: bytes, folder: str = "tree"):
    """Open a regular file for reading. Yield an object with `info` (its stat) and `pread(length, offset)`."""
    with in_words(), tree.files(folder) as files:
        file = files.open(path)
    try:
        if stat.S_ISDIR(file.info.st_mode):
            raise conflict("This is a folder.")
        if not stat.S_ISREG(file.info.st_mode):
            raise conflict("This isn't a regular file.")
        yield file
    finally:
        file.close()


def read(tree, path: bytes, limit: int) -> bytes:
    """Return the whole file. Raise Problem 413 beyond `limit` bytes."""
    with opened(tree, path) as file, in_words():
        if file.info.st_size > limit:
            raise Problem(413, f"The file has {file.info.st_size:,} bytes; {limit:,} is the limit.")
        data = bytearray()
        while len(data) < limit and (piece := file.pread(min(PIECE, limit - len(data)), len(data))):
            data += piece
        return bytes(data)


def write(tree, path: bytes, data: bytes, *, mode: int | None = None, owner: int | None = None) -> bool:
    """Write a file atomically, creating its folders. Return True if it is new.

    An existing file keeps its mode; `owner` is the uid (and gid) of new entries.
    """
    with in_words(), tree.files() as files:
        return files.write(path, [data], mode=mode, owner=owner)


def delete(tree, path: bytes):
    """Remove a file, a symlink (not its target), or a folder with everything in it."""
    with in_words(), tree.files() as files:
        if not safe_open.split_path(path):
            raise invalid("The workspace root can't be deleted as a file.")
        files.delete(path)
