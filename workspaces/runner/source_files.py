"""Put the files that a workspace is made from into an empty folder: an upload or a clone, and carried artifacts."""

import shutil
import threading
from functools import partial
from pathlib import Path

from workspaces import extensions
from workspaces.host import shared_files
from workspaces.models import Lfs, Submodules
from workspaces.operations import uploads_elsewhere
from workspaces.provisioning import limits, uploads
from workspaces.provisioning.git import addresses, lfs, submodules
from workspaces.runner import carried
from workspaces.secrets.team_credentials import credential_of
from workspaces.store import import_archive


def fill(workspace, tree: Path, watch: dict, *, again: bool = False) -> dict:
    """Fill `tree` from the workspace's source and return what a clone adds to it (addresses.TOLD).

    `again`: the commit that was cloned before. A source that is gone raises Problem, CloneFailed or StoreError.
    """
    source, told = workspace.source, {}
    if upload := source.get("upload"):
        with shared_files.opened(uploads_elsewhere.find(workspace.team_id, upload)) as archive:
            import_archive(archive, tree, uploads.LIMITS, **watch)
    elif "git" in source:
        asked = source | {"ref": source["sha"]} if again and source.get("sha") else source
        told = clone(workspace, asked, tree, watch.get("cancel"))
        if not again and (agreed := extensions.ports.agreed_commit(workspace, told["sha"])) != told["sha"]:
            shutil.rmtree(tree)
            tree.mkdir(mode=0o755)
            told = clone(workspace, source | {"ref": agreed}, tree, watch.get("cancel"))
    carried.unpack_artifacts(workspace, tree, watch)
    return {name: told[name] for name in addresses.TOLD if name in told}


def clone(workspace, source: dict, folder: Path, cancel: threading.Event | None) -> dict:
    """Clone a source with submodules and files of git-lfs as the workspace's environment says; submodules.clone."""
    environment, found = workspace.environment, partial(credential_of, workspace.team)
    how = {"credential_of": found, "left": environment.submodules == Submodules.LEFT, "cancel": cancel}
    return submodules.clone(source, folder, pulling=pulling_for(workspace, cancel), **how)


def pulling_for(workspace, cancel: threading.Event | None) -> lfs.Pulling | None:
    """Return what pulls files of git-lfs, None if the workspace's environment leaves them."""
    if workspace.environment.lfs != Lfs.PULLED:
        return None
    return lfs.Pulling(limits.disk_bytes(workspace.environment), partial(credential_of, workspace.team), cancel)
