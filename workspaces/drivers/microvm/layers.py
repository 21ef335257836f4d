"""Setup layers of guests: each is a disk image with what setup installed, read-only once it is kept.

FOLDER/NAME/disk        an ext4 whose `tree` is the overlay's lower directory above the image's root
FOLDER/NAME/layer.json  {digest, base, touched_workspace}; `base` is the digest of the image that it fits
"""

import errno
import hashlib
import json
import os
import shutil
import struct
import tempfile
import time
from collections.abc import Iterator, Mapping, Set
from dataclasses import replace
from pathlib import Path

from dashboard.files.atomic_write import replace_file

from ..base import DriverError, Layer
from . import disks
from .machine import LAYER_BYTES

CHUNK = 1 << 20
SUPERBLOCK, MAGIC, CLEAN = 1024, 0xEF53, 1


class Layers:
    """The setup layers below `folder`."""

    def __init__(self, folder: Path):
        self.folder = folder

    def find(self, name: str, base: str) -> Layer | None:
        """Return the layer of this name, or None if there is none that fits the image."""
        known = self._read(self.folder / name)
        if known is None or known["base"] != base:
            return None
        return Layer(name, known["digest"], known["touched_workspace"])

    def disk_of(self, digest: str, base: str) -> Path | None:
        """Return the disk of the layer with this digest, or None if there is none that fits the image."""
        for place in self._places():
            known = self._read(place)
            if known is not None and (known["digest"], known["base"]) == (digest, base):
                return place / "disk"
        return None

    def keep(self, upper: Path, layer: Layer, base: str) -> Layer:
        """Move the upper disk of an ended setup guest to the layers; return the layer with its digest."""
        _must_be_clean(upper)
        made = replace(layer, digest=_digest(upper, base))
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        fresh = Path(tempfile.mkdtemp(prefix=".new-", dir=self.folder))
        try:
            _move(upper, fresh / "disk")
            if os.geteuid() == 0:
                os.chown(fresh / "disk", 0, 0)
            # QEMU, running as the workspace's user, opens it through a descriptor; the folder is closed to others.
            os.chmod(fresh / "disk", 0o444)
            with open(fresh / "disk", "rb") as file:
                os.fsync(file.fileno())
            said = {"digest": made.digest, "base": base, "touched_workspace": made.touched_workspace}
            replace_file(fresh / "layer.json", json.dumps(said).encode())
            shutil.rmtree(self.folder / layer.name, ignore_errors=True)  # made for another image
            os.rename(fresh, self.folder / layer.name)
        except OSError as error:
            raise DriverError(f"What the setup installed could not be kept: {error.strerror}.") from error
        finally:
            shutil.rmtree(fresh, ignore_errors=True)
        return made

    def collect(self, in_use: Set[str], older_than_s: float, ages: Mapping[str, float]) -> list[str]:
        """Delete old layers with neither name nor digest `in_use`, as `Driver.collect` says; return their names."""
        removed = []
        for place in self._places():
            known = self._read(place)
            names = {place.name, known and known["digest"]}
            oldest = max((ages[name] for name in names & ages.keys()), default=older_than_s)
            if not names & in_use and place.stat().st_mtime <= time.time() - oldest:
                shutil.rmtree(place)
                removed.append(place.name)
        return removed

    def _places(self) -> list[Path]:
        return sorted(place for place in self.folder.glob("*") if place.is_dir())

    def _read(self, place: Path) -> dict | None:
        try:
            return json.loads((place / "layer.json").read_text())
        except (FileNotFoundError, ValueError):
            return None


def make_upper(path: Path, uid: int) -> None:
    """Make an empty disk for what setup installs. It has no journal: a disk not cleanly unmounted is not kept."""
    path.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory() as empty:
        (Path(empty) / "tree").mkdir(mode=0o755)
        disks.format_file(path, Path(empty), LAYER_BYTES, "-O", "^has_journal")
    if os.geteuid() == 0:
        os.chown(path, uid, uid)


def _must_be_clean(disk: Path) -> None:
    """Raise DriverError unless the ext4 superblock says that the disk was unmounted cleanly."""
    with open(disk, "rb") as file:
        magic, state = struct.unpack_from("<HH", os.pread(file.fileno(), 1024, SUPERBLOCK), 56)
    if (magic, state) != (MAGIC, CLEAN):
        raise DriverError("Setup's installed files were not saved: its disk was not closed in order.")


def _digest(disk: Path, base: str) -> str:
    """Return the digest over the base image's digest and the disk's content."""
    hashed = hashlib.sha256(f"layer on {base}\n".encode())
    for at, data in _data_chunks(disk):
        hashed.update(struct.pack("<QI", at, len(data)) + data)
    return f"sha256:{hashed.hexdigest()}"


def _data_chunks(disk: Path) -> Iterator[tuple[int, bytes]]:
    """Yield (offset, bytes) of every chunk that is not all zeros, without reading holes."""
    empty = bytes(CHUNK)
    with open(disk, "rb") as file:
        at, size = 0, os.fstat(file.fileno()).st_size
        while at < size:
            try:
                at = os.lseek(file.fileno(), at, os.SEEK_DATA) // CHUNK * CHUNK
            except OSError:
                return  # only a hole follows
            data = os.pread(file.fileno(), CHUNK, at)
            if data != empty[: len(data)]:
                yield at, data
            at += CHUNK


def _move(disk: Path, target: Path) -> None:
    """Move a disk; copy it without its holes if the target is on another file system."""
    try:
        os.replace(disk, target)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        with open(target, "wb") as file:  # the layers are on another file system
            file.truncate(disk.stat().st_size)
            for at, data in _data_chunks(disk):
                file.seek(at)
                file.write(data)
