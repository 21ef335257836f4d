"""The live files of a workspace: list, read, write, delete beneath its folder, whatever its programs do meanwhile.

A tree is what live.py gives: a folder of this host, one in a guest, or the newest snapshot of what is at rest.
"""

import errno
import stat
from contextlib import contextmanager

from dashboard.problems import Problem, conflict, invalid, not_found
from workspaces.store import beneath
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
    errno.ELOOP: lambda: invalid("The path goes through a symlink; only what lies in the workspace itself is opened."),
    errno.EXDEV: lambda: invalid("The path leads out of the workspace."),
    errno.EISDIR: lambda: conflict("This is a folder."),
    errno.EEXIST: lambda: conflict("There is something else than a regular file at this path."),
    errno.EROFS: lambda: conflict("The workspace is not up, so its files do not change now."),
    errno.ESTALE: lambda: conflict("The file was replaced while it was read."),
    errno.EACCES: lambda: Problem(403, "The file's permissions do not allow that."),
    errno.EPERM: lambda: Problem(403, "The file's permissions do not allow that."),
    errno.ENAMETOOLONG: lambda: invalid("The name is too long."),
    errno.ENOSPC: lambda: Problem(507, "The disk is full; nothing was changed."),
    errno.EDQUOT: lambda: Problem(507, "The disk quota is used up; nothing was changed."),
    errno.EFBIG: lambda: Problem(413, "The file is too large."),
}


@contextmanager
def in_words():
    """Turn what the system says about a path into a Problem."""
    try:
        yield
    except beneath.BadPath as error:
        raise invalid(f"That path is not one inside the workspace: {error}.") from None
    except OSError as error:
        raise (_WORDS[error.errno]() if error.errno in _WORDS else invalid(f"{error.strerror}.")) from None


def listing(tree, path: bytes) -> list[tuple[bytes, str, Found]] | None:
    """(name, type, lstat) of each entry of a folder, sorted by name; None when the path is not a folder."""
    with in_words(), tree.files() as files:
        if not stat.S_ISDIR(files.stat(path).st_mode):
            return None
        return sorted((name, _TYPES[stat.S_IFMT(info.st_mode)], info) for name, info in files.entries(path))


@contextmanager
def opened(tree, path: bytes, folder: str = "tree"):
    """A regular file, open for reading: it has `info`, its stat, and `pread(length, offset)`."""
    with in_words(), tree.files(folder) as files:
        file = files.open(path)
    try:
        if stat.S_ISDIR(file.info.st_mode):
            raise conflict("This is a folder.")
        if not stat.S_ISREG(file.info.st_mode):
            raise conflict("This is not a regular file; it has no bytes to show.")
        yield file
    finally:
        file.close()


def read(tree, path: bytes, limit: int) -> bytes:
    """The whole file; Problem 413 beyond `limit` bytes."""
    with opened(tree, path) as file, in_words():
        if file.info.st_size > limit:
            raise Problem(413, f"The file has {file.info.st_size:,} bytes; {limit:,} is the limit here.")
        data = bytearray()
        while len(data) < limit and (piece := file.pread(min(PIECE, limit - len(data)), len(data))):
            data += piece
        return bytes(data)


def write(tree, path: bytes, data: bytes, *, mode: int | None = None, owner: int | None = None) -> bool:
    """Put a file there as a whole or not at all, with its folders; True when it is new.

    A file that was there keeps its mode; `owner` is the uid (and gid) of new entries.
    """
    with in_words(), tree.files() as files:
        return files.write(path, [data], mode=mode, owner=owner)


def delete(tree, path: bytes):
    """Remove a file, a symlink (not its target), or a folder with all that is in it."""
    with in_words(), tree.files() as files:
        if not beneath.split_path(path):
            raise invalid("The workspace itself is not deleted like a file.")
        files.delete(path)


def inside(path: str) -> bytes:
    """A path as bytes relative to the workspace's root; `/workspace/a` and `a` are the same."""
    raw = path.encode("utf-8", "surrogateescape")
    return raw.removeprefix(b"/workspace").lstrip(b"/") if (raw + b"/").startswith(b"/workspace/") else raw
