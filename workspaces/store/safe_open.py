"""File access confined to a folder, even while other processes change its entries.

Every name is resolved relative to a directory descriptor. `openat2` refuses symlinks, `..`, magic links and other
mounts in one call; where it is missing, each component is opened with O_NOFOLLOW. Without `openat2`, a bind mount of
the same file system cannot be told from a plain folder; all other guarantees hold.
"""

import ctypes
import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = [
    "BadPath",
    "mkdir_beneath",
    "open_beneath",
    "open_root",
    "parent_beneath",
    "readlink_beneath",
    "rename_beneath",
    "rmdir_beneath",
    "split_path",
    "stat_beneath",
    "symlink_beneath",
    "unlink_beneath",
]

_OPENAT2 = 437  # the same number on every architecture that has the call
_RENAMEAT2 = {"x86_64": 316, "aarch64": 276, "riscv64": 276}.get(os.uname().machine)
_NO_XDEV, _NO_MAGICLINKS, _NO_SYMLINKS, _BENEATH = 0x01, 0x02, 0x04, 0x08
RESOLVE = _NO_XDEV | _NO_MAGICLINKS | _NO_SYMLINKS | _BENEATH
RENAME_NOREPLACE, RENAME_EXCHANGE = 1, 2
_HOP = 4000  # bytes; the kernel accepts paths of up to 4095
_FOLDER = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC

_libc = ctypes.CDLL(None, use_errno=True)


class BadPath(ValueError):
    """The path is absolute, or contains a NUL byte or `..`."""


class _OpenHow(ctypes.Structure):
    _fields_ = [("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64)]


def split_path(path: bytes) -> list[bytes]:
    """Return the components of a relative path. Raise BadPath if it could leave the folder."""
    if b"\0" in path:
        raise BadPath("the path contains a NUL byte")
    if path.startswith(b"/"):
        raise BadPath("the path is absolute")
    parts = [part for part in path.split(b"/") if part not in (b"", b".")]
    if b".." in parts:
        raise BadPath("the path contains `..`")
    return parts


def open_root(path: str | bytes | os.PathLike) -> int:
    """Open the root folder for all other calls. This path follows symlinks; the caller must trust it."""
    return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)


def open_beneath(root_fd: int, path: bytes, flags: int, mode: int = 0o666) -> int:
    """Open `path` below `root_fd` and return the descriptor. Raise OSError (ELOOP or EXDEV) if it would leave the root.

    An empty path opens the root itself. A symlink as last component is refused too, unless `flags` has
    O_PATH | O_NOFOLLOW.
    """
    parts = split_path(path)
    name = b"/".join(parts) or b"."
    if len(name) > _HOP:
        return _open_in_hops(root_fd, parts, flags, mode)
    flags |= os.O_CLOEXEC
    if not flags & os.O_PATH:  # the kernel refuses O_PATH with O_NOCTTY
        flags |= os.O_NOCTTY
    if not flags & (os.O_CREAT | os.O_TMPFILE & ~os.O_DIRECTORY):
        mode = 0
    if _kernel_resolves():
        return _openat2(root_fd, name, flags, mode)
    return _open_by_component(root_fd, name, flags, mode)


def _open_in_hops(root_fd, parts, flags, mode):
    # A tree can be deeper than the longest path that the kernel accepts.
    count = length = 0
    while length <= _HOP - 256:
        length += len(parts[count]) + 1
        count += 1
    at = open_beneath(root_fd, b"/".join(parts[:count]), _FOLDER)
    try:
        return open_beneath(at, b"/".join(parts[count:]), flags, mode)
    finally:
        os.close(at)


def _openat2(root_fd, name, flags, mode):
    how = _OpenHow(flags, mode, RESOLVE)
    for _ in range(64):
        fd = _libc.syscall(_OPENAT2, root_fd, name, ctypes.byref(how), ctypes.sizeof(how))
        if fd >= 0:
            return fd
        # EAGAIN: a rename raced with the lookup, so the kernel could not verify the result.
        if (code := ctypes.get_errno()) not in (errno.EINTR, errno.EAGAIN):
            break
    raise OSError(code, os.strerror(code), os.fsdecode(name))


def _open_by_component(root_fd, name, flags, mode):
    *folders, last = name.split(b"/")
    at = os.dup(root_fd)
    try:
        device = os.fstat(at).st_dev
        for folder in folders:
            below = os.open(folder, _FOLDER, dir_fd=at)
            os.close(at)
            at = below
            if os.fstat(at).st_dev != device:
                raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), os.fsdecode(name))
        fd = os.open(last, flags | os.O_NOFOLLOW, mode, dir_fd=at)
    finally:
        os.close(at)
    found = os.fstat(fd)
    asked_for_link = flags & os.O_PATH and flags & os.O_NOFOLLOW
    code = errno.ELOOP if stat.S_ISLNK(found.st_mode) and not asked_for_link else 0
    if found.st_dev != device:
        code = errno.EXDEV
    if code:
        os.close(fd)
        raise OSError(code, os.strerror(code), os.fsdecode(name))
    return fd


_resolves = None


def _kernel_resolves():
    # Old container runtimes return EPERM for unknown system calls, so probe once with a harmless call.
    global _resolves
    if _resolves is None:
        try:
            os.close(_openat2(-100, b".", _FOLDER, 0))  # -100: AT_FDCWD
            _resolves = True
        except OSError:
            _resolves = False
    return _resolves


@contextmanager
def parent_beneath(root_fd: int, path: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield (descriptor of the parent folder of `path`, last component). Raise BadPath for the root itself."""
    *folders, name = split_path(path) or [b""]
    if not name:
        raise BadPath("the path names the root folder")
    fd = open_beneath(root_fd, b"/".join(folders), _FOLDER)
    try:
        yield fd, name
    finally:
        os.close(fd)


def stat_beneath(root_fd: int, path: bytes) -> os.stat_result:
    """Return lstat of an entry below the root, or of the root for an empty path."""
    if not split_path(path):
        return os.fstat(root_fd)
    with parent_beneath(root_fd, path) as (at, name):
        return os.stat(name, dir_fd=at, follow_symlinks=False)


def readlink_beneath(root_fd: int, path: bytes) -> bytes:
    """Return the target of a symlink below the root, without following it."""
    with parent_beneath(root_fd, path) as (at, name):
        return os.readlink(name, dir_fd=at)


def mkdir_beneath(root_fd: int, path: bytes, mode: int = 0o777) -> None:
    """Create one folder; its parent must exist."""
    with parent_beneath(root_fd, path) as (at, name):
        os.mkdir(name, mode, dir_fd=at)


def symlink_beneath(root_fd: int, target: bytes, path: bytes) -> None:
    """Create a symlink; its target is not checked."""
    with parent_beneath(root_fd, path) as (at, name):
        os.symlink(target, name, dir_fd=at)


def unlink_beneath(root_fd: int, path: bytes) -> None:
    """Remove one entry that is not a folder (a symlink itself, never its target)."""
    with parent_beneath(root_fd, path) as (at, name):
        os.unlink(name, dir_fd=at)


def rmdir_beneath(root_fd: int, path: bytes) -> None:
    """Remove one empty folder."""
    with parent_beneath(root_fd, path) as (at, name):
        os.rmdir(name, dir_fd=at)


def rename_beneath(root_fd: int, old: bytes, new: bytes, *, flags: int = 0, new_root_fd: int | None = None) -> None:
    """Rename within the root, or into `new_root_fd`; `flags` as for renameat2 (RENAME_NOREPLACE, RENAME_EXCHANGE)."""
    with (
        parent_beneath(root_fd, old) as (old_at, old_name),
        parent_beneath(root_fd if new_root_fd is None else new_root_fd, new) as (new_at, new_name),
    ):
        rename_at(old_at, old_name, new_at, new_name, flags)


def rename_at(old_at: int, old_name: bytes, new_at: int, new_name: bytes, flags: int = 0) -> None:
    """Rename between two open folders; names are single components."""
    if not flags:
        os.rename(old_name, new_name, src_dir_fd=old_at, dst_dir_fd=new_at)
        return
    if _RENAMEAT2 is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    if _libc.syscall(_RENAMEAT2, old_at, old_name, new_at, new_name, flags) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), os.fsdecode(new_name))
