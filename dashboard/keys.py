"""Keys are made at first use, 0600, under HANDRAIL_HOME/keys; nothing is ever derived from a default."""

import errno
import os
import secrets
import stat
from pathlib import Path


def make_private(folder: Path) -> Path:
    """Make the folder, readable by its owner alone, and return it. PermissionError for one like /tmp, left as it is."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    found = folder.stat()
    if found.st_mode & stat.S_ISVTX:
        raise PermissionError(errno.EPERM, "it is shared by all users of this machine", str(folder))
    if found.st_uid == os.geteuid():
        folder.chmod(0o700)
    return folder


def read_or_make(path: Path) -> str:
    """The key in the file; a new random one (43 characters) where there is none. Two processes at once agree on one."""
    try:
        return path.read_text().strip()
    except FileNotFoundError:
        make_private(path.parent)
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        os.write(fd, secrets.token_urlsafe(32).encode())
        os.fsync(fd)
    finally:
        os.close(fd)
    try:
        os.link(fresh, path)  # the first one wins, and a half-written key is never seen
    except FileExistsError:
        pass
    finally:
        os.unlink(fresh)
    return path.read_text().strip()
