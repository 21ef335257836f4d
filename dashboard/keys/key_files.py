"""Key files, created on first use with mode 0600 under HANDRAIL_HOME/keys; no key is derived from a default."""

import errno
import os
import secrets
import stat
from pathlib import Path

from dashboard.files.atomic_write import create_file


def make_private(folder: Path) -> Path:
    """Create the folder with mode 0700 and return it. Raise PermissionError for a shared one like /tmp."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    found = folder.stat()
    if found.st_mode & stat.S_ISVTX:
        raise PermissionError(errno.EPERM, "it is shared by all users of this machine", str(folder))
    if found.st_uid == os.geteuid():
        folder.chmod(0o700)
    return folder


def read_or_make(path: Path) -> str:
    """Return the key in the file, created at random (43 characters) if missing. Two concurrent callers get the same."""
    try:
        return path.read_text().strip()
    except FileNotFoundError:
        make_private(path.parent)
    create_file(path, secrets.token_urlsafe(32).encode())  # keeps the file of a concurrent writer
    return path.read_text().strip()
