"""What a workspace has besides its files, in a move: the agent's home, and what its programs printed.

Both go through the team's store as trees that no snapshot names; the store holds them for a day.
"""

import shutil
from pathlib import Path

from workspaces.host import paths
from workspaces.runner import removing, secret_scan, snapshots
from workspaces.runner.run_spec import uid_of
from workspaces.store import LocalTree

HELD_S = 24 * 3600.0
HOME, PROGRAMS = "home", "programs"
ARRIVING = "arriving"  # the folder, in that of the workspace, in which a place is made ready


def send(workspace) -> dict[str, str]:
    """Store what it has; return {folder: tree id}. A home with a secret's value is left behind, as a snapshot is.

    The disk of a guest's home goes as it is, for a guest at the other end.
    """
    folder, store, sent = paths.folder_of(workspace.pk), snapshots.store_of(workspace), {}
    for name in (HOME, PROGRAMS):
        if not (folder / name).is_dir():
            continue
        inspector = secret_scan.inspector_of(workspace) if name == HOME else None
        how = {"inspect": inspector, "before_commit": inspector.before_commit if inspector else None}
        try:
            sent[name] = store.snapshot(LocalTree(folder / name), hold=HELD_S, **how).tree
        except secret_scan.SecretFound:
            secret_scan.forget(workspace)
    return sent


def receive(workspace, sent: dict[str, str], driver):
    """Restore what was sent into the folder of the workspace on this host."""
    folder, store = paths.folder_of(workspace.pk), snapshots.store_of(workspace)
    for name, tree in sent.items():
        owner = driver.file_owner(uid_of(workspace).get("uid")) if name == HOME else None
        store.restore(tree, LocalTree(folder / name), journal=folder / f"journal-{name}", owner=owner)


def staging(workspace) -> Path:
    return paths.folder_of(workspace.pk) / ARRIVING


def make_staging(workspace) -> Path:
    """Return an empty folder with `tree` and `home` for the files to come."""
    place = staging(workspace)
    removing.remove(place)
    for name in ("tree", "home"):
        (place / name).mkdir(parents=True, mode=0o700)
    return place


def put_in_place(workspace):
    """Make the staged tree the workspace's, and remove the one that it replaces; again after a crash."""
    place, folder = staging(workspace), paths.folder_of(workspace.pk)
    old, tree = place / "old", folder / "tree"
    if (place / "tree").is_dir():
        if tree.is_dir() and not old.exists():
            tree.rename(old)
        shutil.rmtree(tree, ignore_errors=True)
        (folder / "scan").unlink(missing_ok=True)
        (place / "tree").rename(tree)
    removing.remove(place)
