"""The quarantine of this host: protected paths that held programs created, moved out of their workspace.

HANDRAIL_HOME/quarantine/ID/about.json  {workspace, path, at, action}: written before the path is moved
HANDRAIL_HOME/quarantine/ID/entry       the file, folder or symlink
"""

import errno
import json
import os
import shutil
import stat
import uuid
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from pathlib import Path

from django.conf import settings

from dashboard.files.atomic_write import replace_file
from dashboard.problems import conflict, not_found
from workspaces.host import paths
from workspaces.models import Workspace
from workspaces.store.safe_open import open_root, parent_beneath

KEPT = timedelta(days=30)


@dataclass
class Entry:
    """One path in quarantine; `action` is the id of the card that asks whether to put it back, "" before that."""

    id: str
    workspace: str
    path: str
    at: str
    action: str = ""

    @property
    def place(self) -> Path:
        return _top() / self.id

    @property
    def moved(self) -> Path:
        return self.place / "entry"

    def save(self):
        self.place.mkdir(mode=0o700, parents=True, exist_ok=True)
        replace_file(self.place / "about.json", json.dumps(asdict(self)).encode())

    def kind(self) -> str:
        mode = os.lstat(self.moved).st_mode
        return "folder" if stat.S_ISDIR(mode) else "symlink" if stat.S_ISLNK(mode) else "file"


def _top() -> Path:
    return settings.HANDRAIL_HOME / "quarantine"


def take(workspace: Workspace, path: str, now: datetime) -> Entry | None:
    """Move a path of the workspace's tree into quarantine; None if it is not there any more. OSError, BadPath.

    A crash leaves it in one of the two places.
    """
    entry = Entry(str(uuid.uuid4()), str(workspace.pk), path, now.isoformat())
    entry.save()
    tree = open_root(paths.tree_of(workspace))
    try:
        with parent_beneath(tree, os.fsencode(path)) as (folder, name):
            _move(folder, name, entry.moved)
    except FileNotFoundError:
        shutil.rmtree(entry.place)
        return None
    finally:
        os.close(tree)
    return entry


def _move(folder: int, name: bytes, to: Path):
    try:
        os.rename(name, to, src_dir_fd=folder)
        return
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
    source = Path(f"/proc/self/fd/{folder}") / os.fsdecode(name)
    if source.is_dir() and not source.is_symlink():
        shutil.copytree(source, to, symlinks=True)
        shutil.rmtree(name, dir_fd=folder)
    else:
        shutil.copy2(source, to, follow_symlinks=False)
        os.unlink(name, dir_fd=folder)


def put_back(workspace: Workspace, entry_id: str):
    """Move a path back to where it was made. Problem 404 if it is not kept, 409 if something else is there now."""
    entry = next((found for found in entries() if found.id == entry_id), None)
    if entry is None or entry.workspace != str(workspace.pk):
        raise not_found("path in quarantine")
    tree = open_root(paths.tree_of(workspace))
    try:
        with parent_beneath(tree, os.fsencode(entry.path)) as (folder, name):
            _move_back(entry, folder, name)
    except FileNotFoundError:
        raise conflict(f"The folder of {entry.path} is gone, so it can't be put back.") from None
    finally:
        os.close(tree)
    shutil.rmtree(entry.place)


def _move_back(entry: Entry, folder: int, name: bytes):
    if os.path.lexists(f"/proc/self/fd/{folder}/{os.fsdecode(name)}"):
        raise conflict(f"There is another {entry.path} now, so this one can't be put back.")
    try:
        os.rename(entry.moved, name, dst_dir_fd=folder)
        return
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
    target = Path(f"/proc/self/fd/{folder}") / os.fsdecode(name)
    owner = os.lstat(entry.moved)
    if entry.kind() == "folder":
        shutil.copytree(entry.moved, target, symlinks=True)
    else:
        shutil.copy2(entry.moved, target, follow_symlinks=False)
    if os.geteuid() == 0:
        _give(target, owner.st_uid, owner.st_gid)


def _give(target: Path, uid: int, gid: int):
    os.lchown(target, uid, gid)
    if target.is_dir() and not target.is_symlink():
        for top, folders, files in os.walk(target):
            for name in (*folders, *files):
                os.lchown(os.path.join(top, name), uid, gid)


def entries() -> list[Entry]:
    """Return what is in quarantine on this host, the oldest first."""
    found = []
    for place in _top().glob("*/about.json"):
        try:
            found.append(Entry(**json.loads(place.read_text())))
        except (OSError, ValueError, TypeError):
            continue  # it is just being written or deleted
    return sorted((entry for entry in found if os.path.lexists(entry.moved)), key=lambda entry: entry.at)


def forget(entry: Entry):
    shutil.rmtree(entry.place, ignore_errors=True)
