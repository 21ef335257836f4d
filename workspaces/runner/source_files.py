"""Put the files that a workspace is made from into an empty folder: an upload or a clone, and carried artifacts."""

from functools import partial
from pathlib import Path

from workspaces.models import Submodules
from workspaces.provisioning import uploads
from workspaces.provisioning.git import submodules
from workspaces.runner import carried
from workspaces.store import import_archive
from workspaces.team_credentials import credential_of


def put(workspace, tree: Path, watch: dict, *, again: bool = False) -> dict:
    """Fill `tree` from the workspace's source and return what a clone adds to it: its commit and submodules.

    `again`: the commit that was cloned before. A source that is gone raises Problem, CloneFailed or StoreError.
    """
    source, told = workspace.source, {}
    if upload := source.get("upload"):
        with open(uploads.find(workspace.team_id, upload), "rb") as archive:
            import_archive(archive, tree, uploads.LIMITS, **watch)
    elif "git" in source:
        asked = source | {"ref": source["sha"]} if again and source.get("sha") else source
        how = {"left": workspace.environment.submodules == Submodules.LEFT}
        how["credential_of"] = partial(credential_of, workspace.team)
        told = submodules.clone(asked, tree, **how, cancel=watch.get("cancel"))
    carried.put(workspace, tree, watch)
    return {name: told[name] for name in ("sha", "submodules") if name in told}
