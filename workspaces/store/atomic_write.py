"""Replace files durably and atomically; the counterpart of `dashboard/files/atomic_write.py`.

Runs inside guests too, so it uses the standard library only.
"""

import os
from pathlib import Path


def flush_folder(path: Path) -> None:
    """Fsync a folder, so that its directory entries are durable."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def replace_file(path: Path, data: bytes) -> None:
    """Write a file atomically and durably: temporary file, fsync, rename, fsync of the folder."""
    staged = path.with_name(f"{path.name}.{os.urandom(16).hex()}.new")
    try:
        with open(staged, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.rename(staged, path)
    except BaseException:
        staged.unlink(missing_ok=True)
        raise
    flush_folder(path.parent)
