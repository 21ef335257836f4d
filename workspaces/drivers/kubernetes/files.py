"""The files of a workspace on their way into its pod and back.

At rest they are folders of the runner's host, as with any other driver. A start puts them into the pod, a stop brings
them back, both through the store's own comparison, so that only what differs is carried. While they are in a pod, a
mark beside the folder says so: if the pod is lost, the folder is not what the workspace was.

FOLDER.pod/run     the Run that has the files
FOLDER.pod/store   content that was carried
"""

import contextlib
import os
import shutil
from pathlib import Path

from workspaces.store.errors import StoreError

from ..base import DriverError
from ..remote.tree import GuestTree


def beside(folder: Path) -> Path:
    """Return the folder of marks and of carried content that belongs to a folder of files."""
    return folder.with_name(f"{folder.name}.pod")


def are_away(folder: Path) -> bool:
    """Return whether a pod had the files and did not give them back."""
    return (beside(folder) / "run").exists()


def run_of(folder: Path) -> str:
    """Return the Run that has the files; "" if none has."""
    try:
        return (beside(folder) / "run").read_text()
    except OSError:
        return ""


def is_away_with(folder: Path, run_id: str) -> bool:
    return run_of(folder) == run_id


def put(folder: Path, tree: GuestTree, run_id: str, owner: tuple[int, int]) -> None:
    """Make the pod's tree equal to the folder, for the pod's own user, and mark that the files are away."""
    with _explained("could not be brought into the pod"):
        if os.listdir(folder):
            _carry(folder, _local(folder), tree, owner)
        mark_away(folder, run_id)


def mark_away(folder: Path, run_id: str) -> None:
    """Mark that this Run has the files."""
    place = beside(folder)
    place.mkdir(mode=0o700, exist_ok=True)
    (place / "run").write_text(run_id)


def bring_back(folder: Path, tree: GuestTree, run_id: str, owner: tuple[int, int] | None) -> None:
    """Make the folder equal to the pod's tree; nothing if the files are not away with this Run."""
    if not is_away_with(folder, run_id):
        return
    with _explained("could not be brought back from the pod"):
        tree.recover()
        _carry(folder, tree, _local(folder), owner)
        (beside(folder) / "run").unlink()


def forget(folder: Path) -> None:
    """Delete the mark and the carried content: the folder is what counts."""
    shutil.rmtree(beside(folder), ignore_errors=True)


def _carry(folder: Path, source, target, owner: tuple[int, int] | None) -> None:
    """Make `target` equal to `source`, one of which is the folder."""
    store = _store(folder)
    made = store.snapshot(source)
    store.restore(made.tree, target, journal=beside(folder) / "journal", owner=owner)


def _local(folder: Path):
    from workspaces.store import LocalTree, recover  # deferred: host processes import drivers and must start quickly

    if (journal := beside(folder) / "journal").exists():
        recover(journal)
    return LocalTree(folder, cache=beside(folder) / "cache")


def _store(folder: Path):
    from workspaces.store import Store

    place = beside(folder) / "store"
    place.parent.mkdir(mode=0o700, exist_ok=True)
    try:
        return Store.open(place)
    except StoreError:
        shutil.rmtree(place, ignore_errors=True)  # it was cut off while it was made, and is a copy anyway
        return Store.create(place)


@contextlib.contextmanager
def _explained(what: str):
    try:
        yield
    except (StoreError, OSError) as error:
        raise DriverError(f"The workspace's files {what}: {error}") from error
