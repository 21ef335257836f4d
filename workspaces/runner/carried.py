"""Put the artifacts that a new workspace begins with into its files."""

import tempfile
from pathlib import Path

from workspaces.changes import stores
from workspaces.lifecycle.carried import FOLDER
from workspaces.models import Artifact
from workspaces.provisioning import uploads
from workspaces.store import StoreError, import_archive

IGNORE = "*\n"  # so that nobody commits them by accident


def unpack_artifacts(workspace, tree: Path, watch: dict):
    """Unpack each artifact into its own folder. Raise StoreError if one is gone, or its place is taken.

    No program runs in the tree yet, but the files come from a repository: no link of it is followed.
    """
    wanted = workspace.source.get("artifacts") or []
    if not wanted:
        return
    folder = tree / FOLDER
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        raise StoreError(f"the repository has a file named {FOLDER}, where artifacts would go")
    if not folder.exists():
        folder.mkdir(mode=0o755)
        (folder / ".gitignore").write_text(IGNORE)
    store = stores.opened(workspace.team_id)
    for each in wanted:
        found = Artifact.objects.kept().filter(pk=each["id"], team=workspace.team_id).first()
        if found is None:
            raise StoreError(f"the artifact {each['name']} was deleted")
        place = folder / each["name"]
        if place.is_symlink() or place.exists():
            raise StoreError(f"the repository has {FOLDER}/{each['name']} already")
        place.mkdir(mode=0o755)
        with tempfile.TemporaryFile(dir=tree.parent) as archive:
            store.archive(found.tree_hex, archive, cancel=watch.get("cancel"))
            archive.seek(0)
            import_archive(archive, place, uploads.LIMITS, **watch)
