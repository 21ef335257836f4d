"""The disks of a guest: sparse files with an ext4 each, made without mounting anything on this host.

A folder that a RunSpec names keeps its disk in `.handrail-microvm/`: what lies beside that is not on the disk yet, and
moves there before the next start. Whoever removes the folder removes the disk, and the memory that belongs to it.
"""

import json
import os
import secrets
import shutil
import subprocess
from pathlib import Path

from ..base import DriverError
from ..local import replace_file
from ..sandbox import own

KEEPS = ".handrail-microvm"
GIB = 1 << 30


def keeps(folder: Path) -> Path:
    return folder / KEEPS


def disk_of(folder: Path) -> Path:
    return keeps(folder) / "disk"


def memory_of(folder: Path) -> Path:
    return keeps(folder) / "memory"


def identity(folder: Path) -> dict:
    """{id, generation}: which disk it is, and how many times something may have written to it."""
    return json.loads((keeps(folder) / "disk.json").read_text())


def next_generation(folder: Path) -> None:
    """From now on the disk may differ from what any memory image knows."""
    known = identity(folder)
    replace_file(keeps(folder) / "disk.json", json.dumps(known | {"generation": known["generation"] + 1}).encode())


def prepare(folder: Path, size: int, *, inside: int, outside: int) -> None:
    """Give `folder` a disk that holds what lies in it; `inside` and `outside` are the user's ids."""
    place = keeps(folder)
    place.mkdir(mode=0o700, exist_ok=True)
    staged = place / "staged"
    loose = [name for name in os.listdir(os.fsencode(folder)) if name != KEEPS.encode()]
    if loose:
        # Moved aside in steps that a crash may cut: whatever is staged goes onto the disk, now or at the next start.
        (staged / "tree").mkdir(parents=True, exist_ok=True)
        for name in loose:
            _replace(os.path.join(os.fsencode(folder), name), os.path.join(os.fsencode(staged / "tree"), name))
        (place / "disk").unlink(missing_ok=True)
    if not (place / "disk").exists():
        (staged / "tree").mkdir(parents=True, exist_ok=True)
        shutil.copystat(folder, staged / "tree")
        own(staged / "tree", inside)
        _make(place, staged, size)
    if staged.exists():
        shutil.rmtree(staged)
    if loose:
        memory_of(folder).unlink(missing_ok=True)
    if os.geteuid() == 0:
        os.chown(place / "disk", outside, outside)


def make_empty(folder: Path, size: int, outside: int) -> None:
    """A disk without even a file system, for a guest that never mounts it."""
    keeps(folder).mkdir(parents=True)
    with open(disk_of(folder), "wb") as file:
        file.truncate(size)
    (keeps(folder) / "disk.json").write_text(json.dumps({"id": "", "generation": 0}))
    if os.geteuid() == 0:
        os.chown(disk_of(folder), outside, outside)


def _replace(source: bytes, target: bytes) -> None:
    if os.path.isdir(target) and not os.path.islink(target):
        shutil.rmtree(target)
    os.rename(source, target)


def _make(place: Path, staged: Path, size: int) -> None:
    fresh = place / "disk.new"
    fresh.unlink(missing_ok=True)
    format_file(fresh, staged, size)
    replace_file(place / "disk.json", json.dumps({"id": secrets.token_hex(16), "generation": 1}).encode())
    with open(fresh, "rb") as file:
        os.fsync(file.fileno())
    os.replace(fresh, place / "disk")


def format_file(fresh: Path, staged: Path, size: int, *options: str) -> None:
    """Make a file that is a disk with what lies in `staged`."""
    with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.truncate(size)
    argv = ["mke2fs", "-q", "-F", "-t", "ext4", "-m", "0", "-I", "256", *options, "-d", str(staged)]
    # Nothing was ever written to the file: inode tables need no zeros, now or by the guest later.
    argv += ["-E", "lazy_itable_init=1,lazy_journal_init=1,assume_storage_prezeroed=1,nodiscard", str(fresh)]
    path = {"PATH": f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"}
    try:
        done = subprocess.run(argv, capture_output=True, text=True, env=path)
    except FileNotFoundError as error:
        raise DriverError("mke2fs was not found. Install e2fsprogs.") from error
    if done.returncode != 0:
        fresh.unlink(missing_ok=True)
        words = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        raise DriverError(f"The files do not fit onto the workspace's disk: mke2fs says {words[:200]}")
