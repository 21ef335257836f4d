"""Write whole files atomically and durably. Standard library only, as host processes and drivers use it.

The store has its own in workspaces/store/atomic_write.py: it also runs inside guests, without this package.
"""

import os
from pathlib import Path


def flush_folder(path: Path) -> None:
    """Fsync a folder, which makes the names in it durable."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def replace_file(
    path: Path, content: bytes, *, mode: int = 0o600, owner: tuple[int, int] | None = None, durable: bool = True
) -> None:
    """Replace `path` by `content` atomically; on an error the old file stays. `owner` is applied only as root."""
    fresh = _write_beside(path, content, mode, owner, durable)
    try:
        os.replace(fresh, path)
    except BaseException:
        fresh.unlink(missing_ok=True)
        raise
    if durable:
        flush_folder(path.parent)


def create_file(path: Path, content: bytes, *, mode: int = 0o600) -> bool:
    """Create `path` with its content, durably; return False if it exists."""
    fresh = _write_beside(path, content, mode, None, True)
    try:
        os.link(fresh, path)  # unlike a rename, it never replaces a file
    except FileExistsError:
        return False
    finally:
        fresh.unlink(missing_ok=True)
    flush_folder(path.parent)
    return True


def move_into_place(fresh: Path, path: Path) -> None:
    """Fsync a complete file and rename it to `path`, durably."""
    fd = os.open(fresh, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
    os.replace(fresh, path)
    flush_folder(path.parent)


def _write_beside(path: Path, content: bytes, mode: int, owner: tuple[int, int] | None, durable: bool) -> Path:
    # A unique name for each writer: several may write the same file at the same time.
    fresh = path.with_name(f".{path.name}.{os.urandom(8).hex()}.new")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        with open(os.open(fresh, flags, 0o600), "wb") as file:
            if owner is not None and os.geteuid() == 0:
                os.fchown(file.fileno(), *owner)
            os.fchmod(file.fileno(), mode)
            file.write(content)
            file.flush()
            if durable:
                os.fsync(file.fileno())
    except BaseException:
        fresh.unlink(missing_ok=True)
        raise
    return fresh
