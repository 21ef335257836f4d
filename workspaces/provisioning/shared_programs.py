"""Agents' programs in HANDRAIL_BUCKET: one host brings a program from npm, and the others from there, by its digest.

Without a bucket each host brings its own.
"""

import logging
import os
import platform
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import zstandard
from blake3 import blake3
from django.conf import settings

from dashboard.keys.key_files import make_private
from dashboard.problems import unavailable
from workspaces.host import shared_files
from workspaces.models import SharedAgentProgram
from workspaces.store import StoreError

logger = logging.getLogger("handrail.runner")
PIECE = 1 << 20


def this_platform() -> str:
    return f"{platform.system().lower()}-{platform.machine()}"


def path_of(digest: str) -> Path:
    """Return the name of an archive for shared_files."""
    return settings.HANDRAIL_HOME / "agent-archives" / f"{digest}.tar.zst"


def is_shared(named: str) -> bool:
    return bool(settings.HANDRAIL_BUCKET) and _rows(named).exists()


def shared() -> list[str]:
    """Return NAME@VERSION of all that hosts of this platform find in the bucket."""
    if not settings.HANDRAIL_BUCKET:
        return []
    return list(SharedAgentProgram.objects.filter(platform=this_platform()).values_list("named", flat=True))


def bring(named: str, folder: Path) -> bool:
    """Unpack a program from the bucket into a folder; return False if it has none. Problem 503."""
    row = _rows(named).first() if settings.HANDRAIL_BUCKET else None
    if row is None:
        return False
    try:
        with shared_files.opened(path_of(row.digest)) as file:
            if _digest_of(file) != row.digest:
                raise unavailable(f"The archive of {named} in the bucket is not the one that was put there.")
            file.seek(0)
            with zstandard.ZstdDecompressor().stream_reader(file) as plain:
                with tarfile.open(fileobj=plain, mode="r|") as archive:
                    archive.extraction_filter = lambda entry, path: entry  # it is as a host packed it, by its digest
                    archive.extractall(folder)
    except FileNotFoundError:
        logger.warning("the bucket has no archive of %s any more", named)
        row.delete()
        return False
    except StoreError as error:
        raise unavailable(f"{named} cannot be brought from the bucket: {error}.") from error
    return True


def share(named: str, folder: Path):
    """Put an installed program into the bucket for the other hosts. A failure is logged: the program is here."""
    if not settings.HANDRAIL_BUCKET or is_shared(named):
        return
    try:
        with _packed(folder) as (path, size):
            digest = path.name.partition(".")[0]
            shared_files.keep(path)
            fields = {"digest": digest, "bytes": size}
            SharedAgentProgram.objects.update_or_create(named=named, platform=this_platform(), defaults=fields)
    except (StoreError, OSError) as error:
        logger.warning("%s is not in the bucket, so other hosts bring it themselves: %s", named, error)


def withdraw(named: str):
    """Delete a program from the bucket. Problem 503."""
    if not settings.HANDRAIL_BUCKET:
        return
    for row in _rows(named):
        try:
            if not SharedAgentProgram.objects.filter(digest=row.digest).exclude(pk=row.pk).exists():
                shared_files.remove(path_of(row.digest))
        except StoreError as error:
            raise unavailable(f"{named} cannot be deleted from the bucket: {error}.") from error
        row.delete()


def _rows(named: str):
    return SharedAgentProgram.objects.filter(named=named, platform=this_platform())


@contextmanager
def _packed(folder: Path) -> Iterator[tuple[Path, int]]:
    """Pack a folder into one archive, named by its digest; yield (its path, bytes). It is deleted afterwards."""
    above = make_private(path_of("").parent)
    with tempfile.NamedTemporaryFile(dir=above, prefix=".", delete=False) as out:
        fresh = Path(out.name)
        try:
            with zstandard.ZstdCompressor(level=3).stream_writer(out, closefd=False) as packed:
                with tarfile.open(fileobj=packed, mode="w|", format=tarfile.PAX_FORMAT) as archive:
                    for name in sorted(os.listdir(folder)):
                        archive.add(folder / name, name, filter=_without_owner)
            out.flush()
            with open(fresh, "rb") as file:
                path = path_of(_digest_of(file))
            fresh.rename(path)
        except BaseException:
            fresh.unlink(missing_ok=True)
            raise
    try:
        yield path, path.stat().st_size
    finally:
        path.unlink(missing_ok=True)


def _without_owner(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return entry


def _digest_of(file: BinaryIO) -> str:
    digest = blake3()
    while piece := file.read(PIECE):
        digest.update(piece)
    return digest.hexdigest()
