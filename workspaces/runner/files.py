"""The live files of a workspace: list, read, write, delete beneath its folder, whatever its programs do meanwhile."""

import errno
import os
import secrets
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dashboard.problems import Problem, conflict, invalid, not_found
from workspaces.store import beneath

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


@contextmanager
def _root(tree: Path):
    fd = beneath.open_root(tree)
    try:
        yield fd
    finally:
        os.close(fd)


def listing(tree: Path, path: bytes) -> list[tuple[bytes, str, os.stat_result]] | None:
    """(name, type, lstat) of each entry of a folder, sorted by name; None when the path is not a folder."""
    with in_words(), _root(tree) as root:
        if not stat.S_ISDIR(beneath.stat_beneath(root, path).st_mode):
            return None
        fd = beneath.open_beneath(root, path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            found = []
            for name in os.listdir(fd):
                raw = os.fsencode(name)
                try:
                    info = os.lstat(raw, dir_fd=fd)
                except FileNotFoundError:
                    continue  # gone since it was listed
                found.append((raw, _TYPES[stat.S_IFMT(info.st_mode)], info))
            return sorted(found)
        finally:
            os.close(fd)


@contextmanager
def opened(tree: Path, path: bytes) -> Iterator[tuple[int, os.stat_result]]:
    """A regular file, open for reading, as (descriptor, fstat)."""
    with in_words(), _root(tree) as root:
        # O_NONBLOCK: opening a FIFO must not wait for a writer.
        fd = beneath.open_beneath(root, path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        info = os.fstat(fd)
        if stat.S_ISDIR(info.st_mode):
            raise conflict("This is a folder.")
        if not stat.S_ISREG(info.st_mode):
            raise conflict("This is not a regular file; it has no bytes to show.")
        yield fd, info
    finally:
        os.close(fd)


def read(tree: Path, path: bytes, limit: int) -> bytes:
    """The whole file; Problem 413 beyond `limit` bytes."""
    with opened(tree, path) as (fd, info):
        if info.st_size > limit:
            raise Problem(413, f"The file has {info.st_size:,} bytes; {limit:,} is the limit here.")
        with os.fdopen(os.dup(fd), "rb") as file:
            return file.read(limit + 1)[:limit]


def write(tree: Path, path: bytes, data: bytes, *, mode: int | None = None, owner: int | None = None) -> bool:
    """Put a file there as a whole or not at all, with its folders; True when it is new.

    A file that was there keeps its mode; `owner` is the uid (and gid) of new entries.
    """
    with in_words(), _root(tree) as root:
        before = _what_is_there(root, path)
        if before is not None and not stat.S_ISREG(before.st_mode):
            raise conflict("There is something else than a regular file at this path.")
        _make_parents(root, path, owner)
        with beneath.parent_beneath(root, path) as (at, name):
            fresh = b".handrail-" + secrets.token_hex(8).encode()
            fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600, dir_fd=at)
            try:
                _fill(fd, data, owner, _mode(before, mode))
                os.rename(fresh, name, src_dir_fd=at, dst_dir_fd=at)
            except BaseException:
                os.unlink(fresh, dir_fd=at)
                raise
            finally:
                os.close(fd)
            _flush_folder(at)
        return before is None


def _flush_folder(at):
    fd = os.open(b".", os.O_RDONLY | os.O_DIRECTORY, dir_fd=at)  # `at` may be a bare path descriptor
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _what_is_there(root, path):
    try:
        return beneath.stat_beneath(root, path)
    except FileNotFoundError:
        return None


def _mode(before, asked):
    if asked is not None:
        return asked & 0o777
    return stat.S_IMODE(before.st_mode) & 0o777 if before is not None else 0o644


def _fill(fd, data, owner, mode):
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]
    if owner is not None and os.geteuid() == 0:
        os.fchown(fd, owner, owner)
    os.fchmod(fd, mode)
    os.fsync(fd)


def _make_parents(root, path, owner):
    parts = beneath.split_path(path)
    for depth in range(1, len(parts)):
        folder = b"/".join(parts[:depth])
        try:
            beneath.mkdir_beneath(root, folder, 0o755)
        except FileExistsError:
            continue
        if owner is not None and os.geteuid() == 0:
            fd = beneath.open_beneath(root, folder, os.O_RDONLY | os.O_DIRECTORY)
            try:
                os.fchown(fd, owner, owner)
            finally:
                os.close(fd)


def delete(tree: Path, path: bytes):
    """Remove a file, a symlink (not its target), or a folder with all that is in it."""
    with in_words(), _root(tree) as root:
        if not beneath.split_path(path):
            raise invalid("The workspace itself is not deleted like a file.")
        with beneath.parent_beneath(root, path) as (at, name):
            if stat.S_ISDIR(os.lstat(name, dir_fd=at).st_mode):
                shutil.rmtree(name, dir_fd=at)
            else:
                os.unlink(name, dir_fd=at)


def inside(path: str) -> bytes:
    """A path as bytes relative to the workspace's root; `/workspace/a` and `a` are the same."""
    raw = path.encode("utf-8", "surrogateescape")
    return raw.removeprefix(b"/workspace").lstrip(b"/") if (raw + b"/").startswith(b"/workspace/") else raw
