"""The disks of a guest: sparse files with an ext4 file system each, made without mounting anything on this host.

Each folder of a RunSpec has its disk in `.handrail-microvm/`. Files beside that are not on the disk yet; they are moved
onto it before the next start. Removing the folder removes the disk and the memory image that belongs to it.
"""

import json
import os
import secrets
import shutil
import subprocess
from pathlib import Path

from dashboard.files.atomic_write import move_into_place, replace_file

from ..base import DriverError
from ..sandbox.driver import own

KEEPS = ".handrail-microvm"
GIB = 1 << 30


def guest_folder(folder: Path) -> Path:
    return folder / KEEPS


def disk_of(folder: Path) -> Path:
    return guest_folder(folder) / "disk"


def memory_of(folder: Path) -> Path:
    return guest_folder(folder) / "memory"


def identity_file(folder: Path) -> Path:
    return guest_folder(folder) / "disk.json"


def identity(folder: Path) -> dict:
    """Return {id, generation}: the disk's id, and a counter of the starts that may have written to it."""
    return json.loads(identity_file(folder).read_text())


def next_generation(folder: Path) -> None:
    """Advance the disk's generation, which invalidates every memory image saved with it."""
    known = identity(folder)
    replace_file(identity_file(folder), json.dumps(known | {"generation": known["generation"] + 1}).encode())


def prepare(folder: Path, size: int, *, inside: int, outside: int) -> None:
    """Give `folder` a disk of `size` bytes with its files. The user has the id `inside` the guest and `outside` it."""
    place = guest_folder(folder)
    place.mkdir(mode=0o700, exist_ok=True)
    staged = place / "staged"
    loose = [name for name in os.listdir(os.fsencode(folder)) if name != KEEPS.encode()]
    if loose:
        # A crash may interrupt these moves: everything in `staged` goes onto the disk, now or before the next start.
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


def has_files(folder: Path) -> bool:
    """Return whether `folder` has a disk, or files that `prepare` would put onto one."""
    loose = any(name != KEEPS for name in os.listdir(folder))
    return loose or disk_of(folder).exists() or (guest_folder(folder) / "staged").exists()


def make_empty(folder: Path, size: int, outside: int) -> None:
    """Make a disk without a file system, for a guest that never mounts it (a template)."""
    guest_folder(folder).mkdir(parents=True)
    with open(disk_of(folder), "wb") as file:
        file.truncate(size)
    (guest_folder(folder) / "disk.json").write_text(json.dumps({"id": "", "generation": 0}))
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
    move_into_place(fresh, place / "disk")


def format_file(fresh: Path, staged: Path, size: int, *options: str) -> None:
    """Make a disk image of `size` bytes with the files in `staged`; DriverError if they do not fit."""
    with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.truncate(size)
    argv = ["mke2fs", "-q", "-F", "-t", "ext4", "-m", "0", "-I", "256", *options, "-d", str(staged)]
    # The sparse file reads as zeros, so neither mke2fs nor the guest must zero the inode tables.
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
