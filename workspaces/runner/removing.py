"""Remove folders that an agent filled, however deep and whatever their permissions, while nothing runs in them."""

import os
import secrets
import stat
from itertools import count
from pathlib import Path

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def remove(path: Path):
    """Remove a file or a folder with all that is in it; nothing if it is gone. Raise OSError.

    Each folder is emptied at the top: the folders in it are moved there first. So no depth is too much.
    """
    if path.is_symlink() or not path.is_dir():
        path.unlink(missing_ok=True)
        return
    _open_up(os.fspath(path), None)
    top = os.open(path, _FOLDER)
    names = (f"{secrets.token_hex(8)}-{number}" for number in count())
    try:
        while found := os.listdir(top):
            for name in found:
                if _open_up(name, top):
                    _empty(name, top, names)
                    os.rmdir(name, dir_fd=top)
                else:
                    os.unlink(name, dir_fd=top)
    finally:
        os.close(top)
    path.rmdir()


def _empty(name: str, top: int, names):
    """Remove the files of a folder in `top`, and move its folders there under new names."""
    folder = os.open(name, _FOLDER, dir_fd=top)
    try:
        for entry in os.listdir(folder):
            if _open_up(entry, folder):
                os.rename(entry, next(names), src_dir_fd=folder, dst_dir_fd=top)
            else:
                os.unlink(entry, dir_fd=folder)
    finally:
        os.close(folder)


def _open_up(name: str, at: int | None) -> bool:
    """Return whether it is a folder; let its owner list and change it. One of Go's module cache is read-only, say."""
    mode = os.stat(name, dir_fd=at, follow_symlinks=False).st_mode
    if stat.S_ISDIR(mode) and mode & stat.S_IRWXU != stat.S_IRWXU:
        os.chmod(name, stat.S_IMODE(mode) | stat.S_IRWXU, dir_fd=at)
    return stat.S_ISDIR(mode)
