"""Checkpoints: copies of a paused guest's disks with its memory, from which it continues any number of times.

A folder per checkpoint: `workspace.disk`, `workspace.json`, `home.disk`, `home.json` and `memory`. The memory image is
never written again once it is complete, so it is shared by a hard link; the disks are written in place, so they are
copied, without data where the file system can share blocks (reflink) and without holes elsewhere.
"""

import errno
import fcntl
import os
import shutil
from contextlib import suppress
from pathlib import Path

from dashboard.files.atomic_write import flush_folder, move_into_place, replace_file

from ..base import Checkpoint, DriverError
from . import disks, memory

FICLONE = 0x40049409  # share all blocks of another file (linux/fs.h)
CHUNK = 8 << 20


def size_of(folders: dict[str, Path]) -> int:
    """Return the bytes on disk that a checkpoint of {name: folder} takes: its memory and its disks."""
    files = [disks.memory_of(folders["workspace"]), *(disks.disk_of(folder) for folder in folders.values())]
    return sum(_on_disk(path) for path in files)


def copy_out(folders: dict[str, Path], place: Path) -> Checkpoint:
    """Copy disks and memory of a paused guest to the folder `place`, durably; a copy that is there is replaced."""
    fresh = place.with_name(f"{place.name}.new")
    for former in (fresh, place):
        shutil.rmtree(former, ignore_errors=True)
    fresh.mkdir(mode=0o700, parents=True)
    try:
        for name, folder in folders.items():
            copy(disks.disk_of(folder), fresh / f"{name}.disk")
            replace_file(fresh / f"{name}.json", disks.identity_file(folder).read_bytes())
        _share(disks.memory_of(folders["workspace"]), fresh / "memory")
        began = memory.head_of(fresh / "memory")["run"]
        size = sum(_on_disk(path) for path in fresh.iterdir())
        os.rename(fresh, place)
        flush_folder(place.parent)
    except OSError as error:
        shutil.rmtree(fresh, ignore_errors=True)
        raise DriverError(f"The checkpoint could not be written: {error.strerror}.") from error
    return Checkpoint(size, began)


def copy_in(place: Path, folders: dict[str, Path]) -> None:
    """Replace disks and memory of a guest that is down by those of a checkpoint. May be called again after a crash.

    The memory comes last: until then nothing fits the disks, so a start in between boots.
    """
    target = disks.memory_of(folders["workspace"])
    memory.discard(target)
    try:
        for name, folder in folders.items():
            disks.guest_folder(folder).mkdir(mode=0o700, exist_ok=True)
            copy(place / f"{name}.disk", disks.disk_of(folder).with_name("disk.new"))
        for name, folder in folders.items():
            move_into_place(disks.disk_of(folder).with_name("disk.new"), disks.disk_of(folder))
            replace_file(disks.identity_file(folder), (place / f"{name}.json").read_bytes())
        _share(place / "memory", target.with_name("memory.new"))
        os.replace(target.with_name("memory.new"), target)
        flush_folder(target.parent)
    except FileNotFoundError as error:
        raise DriverError("The checkpoint's files are not complete; it may have been deleted.") from error
    except OSError as error:
        raise DriverError(f"The checkpoint could not be put in place: {error.strerror}.") from error


def copy(source: Path, target: Path) -> None:
    """Copy a sparse file, sharing its blocks where the file system can."""
    target.unlink(missing_ok=True)
    with open(source, "rb") as given, open(os.open(target, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600), "wb") as made:
        try:
            fcntl.ioctl(made.fileno(), FICLONE, given.fileno())
        except OSError as error:
            if error.errno == errno.ENOSPC:
                raise
            _copy_data(given.fileno(), made.fileno())
        os.fsync(made.fileno())


def _copy_data(source: int, target: int) -> None:
    size, at = os.fstat(source).st_size, 0
    os.ftruncate(target, size)
    while at < size:
        try:
            at = os.lseek(source, at, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:  # nothing but a hole follows
                return
            raise
        end = os.lseek(source, at, os.SEEK_HOLE)
        while at < end:
            data = os.pread(source, min(CHUNK, end - at), at)
            at += os.pwrite(target, data, at)


def _share(source: Path, target: Path) -> None:
    target.unlink(missing_ok=True)
    try:
        os.link(source, target)
    except FileNotFoundError:
        raise
    except OSError:  # another file system, or one without hard links
        copy(source, target)


def _on_disk(path: Path) -> int:
    with suppress(FileNotFoundError):
        return path.stat().st_blocks * 512
    return 0
