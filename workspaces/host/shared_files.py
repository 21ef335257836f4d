"""Files that one host writes and another may read: in HANDRAIL_BUCKET where there is one, else in HANDRAIL_HOME.

A file is named by its path below HANDRAIL_HOME. In a bucket it is there alone, so that who deletes it has deleted it.
"""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import BinaryIO, NamedTuple

from django.conf import settings

from workspaces.host.store_keys import AnyKeys, TeamKeys
from workspaces.store import sealing


class Kept(NamedTuple):
    """A file: its path, length in bytes, and when it was written."""

    path: Path
    size: int
    at: datetime


def keep(path: Path, team_id=None):
    """Keep a file that was just written whole, of a team or of all. A team with a key has it encrypted.

    Raise StoreError if the bucket does not take it; it stays here then.
    """
    if not settings.HANDRAIL_BUCKET:
        return
    key = TeamKeys(team_id).newest() if team_id else None
    if key is None:
        _client(settings.HANDRAIL_BUCKET).put_file(_name(path), path)
    else:
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=".") as sealed:
            with open(path, "rb") as plain:
                sealing.seal_file(key, plain, sealed, _name(path).encode())
            sealed.flush()
            _client(settings.HANDRAIL_BUCKET).put_file(_name(path), Path(sealed.name))
    path.unlink()


def is_kept(path: Path) -> bool:
    """Return whether the file is there. Raise StoreError if the bucket does not answer."""
    return path.is_file() or (bool(settings.HANDRAIL_BUCKET) and _client(settings.HANDRAIL_BUCKET).exists(_name(path)))


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """Open a file for reading. Raise FileNotFoundError, StoreError."""
    if path.is_file() or not settings.HANDRAIL_BUCKET:
        with open(path, "rb") as file:
            yield file
        return
    with tempfile.TemporaryFile(dir=settings.HANDRAIL_HOME) as file:
        _client(settings.HANDRAIL_BUCKET).get_file(_name(path), file)
        file.seek(0)
        key_id = sealing.sealed_with(file.read(sealing.FILE_HEAD_BYTES))
        file.seek(0)
        if key_id is None:
            yield file
            return
        with tempfile.TemporaryFile(dir=settings.HANDRAIL_HOME) as plain:
            key = AnyKeys().key(key_id, f"the file {path.name}")
            sealing.unseal_file(key, file, plain, _name(path).encode(), f"the file {path.name}")
            plain.seek(0)
            yield plain


def here(folder: Path) -> list[Kept]:
    """Return the files of a folder of this host, by name."""
    found = []
    for path in sorted(folder.glob("*")):
        with suppress(FileNotFoundError):  # deleted meanwhile
            status = path.stat()
            found.append(Kept(path, status.st_size, datetime.fromtimestamp(status.st_mtime, UTC)))
    return found


def kept_in(folder: Path) -> list[Kept]:
    """Return the files of a folder, by name, without those of its folders. Raise StoreError."""
    found = {each.path.name: each for each in here(folder)}
    if settings.HANDRAIL_BUCKET:
        for each in _client(settings.HANDRAIL_BUCKET).ls(_name(folder)):
            if "/" not in each.name:
                found[each.name] = Kept(folder / each.name, each.size, datetime.fromtimestamp(each.at, UTC))
    return [found[name] for name in sorted(found)]


def folders_in(folder: Path) -> set[str]:
    """Return the names of the folders of a folder that have a file. Raise StoreError."""
    found = {path.parent.name for path in folder.glob("*/*")}
    if settings.HANDRAIL_BUCKET:
        found |= {each.name.partition("/")[0] for each in _client(settings.HANDRAIL_BUCKET).ls(_name(folder))}
    return found


def remove(path: Path):
    """Delete a file if it is there. Raise StoreError."""
    path.unlink(missing_ok=True)
    if settings.HANDRAIL_BUCKET:
        _client(settings.HANDRAIL_BUCKET).delete([_name(path)])


def remove_folder(folder: Path):
    """Delete a folder and all files in it. Raise StoreError."""
    shutil.rmtree(folder, ignore_errors=True)
    if settings.HANDRAIL_BUCKET:
        client, name = _client(settings.HANDRAIL_BUCKET), _name(folder)
        client.delete([f"{name}/{each.name}" for each in client.ls(name)])


def _name(path: Path) -> str:
    return f"files/{path.relative_to(settings.HANDRAIL_HOME)}"


@lru_cache(maxsize=4)
def _client(bucket: str):
    from workspaces.store.blobs.bucket_client import Client

    return Client.at(bucket)
