"""Move entries between a tree and the stage of a restore, also folders that their file system does not rename.

overlayfs answers EXDEV for a folder of a lower layer, as one of an image is. Such a folder is moved entry by entry.
A mark in the stage says that this has begun; with it the same move, or the one back, goes on after a crash.
"""

import errno
import json
import os
from contextlib import suppress

from .attributes import Attributes, set_on
from .depth import RAISE_LIMITS_AT, raise_limits
from .safe_open import rename_at

_MARK = b".begun"
_OPEN = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def has_begun(stage_fd: int, staged: bytes) -> bool:
    """Return True if the entry's move into or out of the stage was interrupted."""
    return _is_there(stage_fd, staged + _MARK)


def move_aside(at: int, name: bytes, stage_fd: int, staged: bytes) -> None:
    """Move an entry of the tree into the stage, or go on with that."""
    if has_begun(stage_fd, staged) or not _renamed(at, name, stage_fd, staged):
        _marked(at, name, stage_fd, staged, stage_fd, staged + _MARK)


def move_back(stage_fd: int, staged: bytes, at: int, name: bytes) -> None:
    """Move an entry of the stage back into the tree, or what is already in the stage."""
    if has_begun(stage_fd, staged) or not _renamed(stage_fd, staged, at, name):
        _marked(stage_fd, staged, at, name, stage_fd, staged + _MARK)


def _marked(old_at: int, old: bytes, new_at: int, new: bytes, stage_fd: int, mark: bytes) -> None:
    fd = os.open(mark, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600, dir_fd=stage_fd)
    try:
        _carry(old_at, old, new_at, new, Known(fd))
    finally:
        os.close(fd)
    os.unlink(mark, dir_fd=stage_fd)


class Known:
    """The attributes that folders had before their entries were moved, written to the mark before the first of them."""

    def __init__(self, fd: int):
        self._fd = fd
        self._found: dict[str, Attributes] = {}
        with open(os.dup(fd), encoding="ascii") as file:
            for line in file:
                with suppress(ValueError):  # the last line may be cut off: then its folder is as it was
                    path, fields = json.loads(line)
                    self._found[path] = Attributes.from_list(fields)

    def of(self, path: bytes, folder: int) -> Attributes:
        """Return the attributes of a folder, which is open, as it was at first."""
        name = path.decode("latin-1")
        if name not in self._found:
            self._found[name] = _attributes_of(folder)
            os.write(self._fd, b"\n" + json.dumps([name, self._found[name].as_list()]).encode() + b"\n")
            os.fsync(self._fd)
        return self._found[name]


def _renamed(old_at: int, old: bytes, new_at: int, new: bytes) -> bool:
    """Rename an entry; return False for a folder that can only be moved entry by entry."""
    try:
        rename_at(old_at, old, new_at, new)
    except OSError as error:
        if error.errno != errno.EXDEV or not _is_folder(old_at, old):
            raise
        return False
    return True


def _carry(old_at: int, old: bytes, new_at: int, new: bytes, known: Known, path: bytes = b"") -> None:
    """Move what is in a folder into the new one, then remove it. Nothing is left to do if it is gone.

    `path` is that of the folder below the first one.
    """
    if path.count(b"/") == RAISE_LIMITS_AT:
        raise_limits()
    try:
        source = os.open(old, _OPEN, dir_fd=old_at)
    except FileNotFoundError:
        return
    try:
        with suppress(FileExistsError):
            os.mkdir(new, 0o700, dir_fd=new_at)
        target = os.open(new, _OPEN, dir_fd=new_at)
        try:
            attributes = known.of(path, source)
            for name in map(os.fsencode, os.listdir(source)):
                is_begun = _is_there(target, name) and _is_folder(source, name)
                if is_begun or not _renamed(source, name, target, name):
                    _carry(source, name, target, name, known, path + b"/" + name)
            set_on(target, attributes)
        finally:
            os.close(target)
    finally:
        os.close(source)
    os.rmdir(old, dir_fd=old_at)


def _attributes_of(folder: int) -> Attributes:
    found = os.fstat(folder)
    try:
        xattrs = tuple((os.fsencode(name), os.getxattr(folder, name)) for name in os.listxattr(folder))
    except OSError:
        xattrs = ()
    uid = found.st_uid if os.geteuid() == 0 else None
    return Attributes(found.st_mode & 0o7777, uid, found.st_gid, found.st_mtime_ns, xattrs)


def _is_folder(at: int, name: bytes) -> bool:
    try:
        os.close(os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=at))
    except OSError:
        return False
    return True


def _is_there(at: int, name: bytes) -> bool:
    try:
        os.stat(name, dir_fd=at, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True
