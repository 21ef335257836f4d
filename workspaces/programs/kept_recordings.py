"""Copies of the recordings of ended programs in HANDRAIL_BUCKET, where they outlive the host that recorded them.

A recording stays in the folder of its program, and is read there. Its copy is one tar archive of that folder, by
workspace and program. Without a bucket there are no copies.
"""

import os
import shutil
import tarfile
import tempfile
import weakref
from pathlib import Path

from django.conf import settings

from dashboard.keys.key_files import make_private
from dashboard.problems import unavailable
from workspaces.host import paths, shared_files
from workspaces.models import Workspace
from workspaces.store import StoreError

MARK = "kept"  # the file in a program's folder that says that the bucket has a copy


def folder_of(workspace_id) -> Path:
    return settings.HANDRAIL_HOME / "recordings" / str(workspace_id)


def path_of(workspace_id, program_id) -> Path:
    """Return the name of a copy for shared_files."""
    return folder_of(workspace_id) / f"{program_id}.tar"


def is_missing(folder: Path) -> bool:
    """Return whether the bucket lacks the recording of an ended program of this host."""
    return bool(settings.HANDRAIL_BUCKET) and (folder / "exit.json").exists() and not (folder / MARK).exists()


def keep(folder: Path):
    """Copy the recording of an ended program of this host into the bucket. Raise StoreError, OSError."""
    if settings.HANDRAIL_BUCKET:
        path = path_of(folder.parent.parent.name, folder.name)
        team = Workspace.objects.values_list("team", flat=True).get(pk=folder.parent.parent.name)
        send(folder, path, team)
        try:
            (folder / MARK).touch(mode=0o600)
        except FileNotFoundError:  # it was deleted meanwhile, and its copy must not stay
            shared_files.remove(path)


def send(folder: Path, path: Path, team_id):
    """Make the copy with this name from the folder of a recording, in place of an older one."""
    make_private(path.parent)
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=".", delete=False) as fresh:
        with tarfile.open(fileobj=fresh, mode="w", format=tarfile.PAX_FORMAT) as archive:
            for file in sorted(folder.iterdir()):
                if file.is_file() and not file.is_symlink() and file.name != MARK:
                    archive.add(file, file.name)
        fresh.flush()
        Path(fresh.name).replace(path)
    shared_files.keep(path, team_id)


class Fetched:
    """The folder of a copy, fetched when it is first asked for, and deleted with this object."""

    def __init__(self, path: Path):
        self._path = path
        self._folder: Path | None = None

    def folder(self) -> Path | None:
        """Return the folder; None if there is no copy. Problem 503 if the bucket does not answer."""
        if self._folder is None and settings.HANDRAIL_BUCKET:
            try:
                with shared_files.opened(self._path) as file, tarfile.open(fileobj=file) as archive:
                    self._unpack(archive)
            except FileNotFoundError:
                return None
            except StoreError as error:
                raise unavailable(f"The recording cannot be read now: {error}.") from error
        return self._folder

    def _unpack(self, archive: tarfile.TarFile):
        folder = Path(tempfile.mkdtemp(prefix="recording-", dir=make_private(settings.HANDRAIL_HOME / "cache")))
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        for entry in archive:
            if entry.isfile() and "/" not in entry.name:
                path = folder / entry.name
                path.write_bytes(archive.extractfile(entry).read())
                os.utime(path, (entry.mtime, entry.mtime))
        self._folder = folder


def remove(workspace_id, program_id):
    """Delete a recording of this host, and its copy. Raise StoreError."""
    shutil.rmtree(paths.program_of(workspace_id, program_id), ignore_errors=True)
    shared_files.remove(path_of(workspace_id, program_id))


def remove_all(workspace_id):
    """Delete the copies of a workspace's recordings. Raise StoreError."""
    shared_files.remove_folder(folder_of(workspace_id))
