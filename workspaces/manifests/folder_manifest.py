"""The manifest as a plain file in a connected folder, where nothing can be mounted: written, known again, removed.

Beside the workspace's other data (`paths.folder_of`) a record has the digests of what was written last. Only a file
with one of these is ours: it is replaced, and left out of snapshots and differences. Any other is the user's.
"""

import hashlib
import json
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from dashboard.files.atomic_write import replace_file
from dashboard.files.locks import take_lock
from workspaces.host import paths
from workspaces.store import mount_point

logger = logging.getLogger("handrail.runner")
RECORD = "shown-manifest.json"  # {sha256: [the newest first], off: True once it was taken away}
MOST = 20  # digests kept when a write has failed many times


def digests(workspace_id) -> frozenset[str]:
    """Return the digests of what may be in the folder as the manifest."""
    return frozenset(_read(workspace_id).get("sha256", ()))


def write(workspace, content: bytes, *, again: bool = False):
    """Write the manifest, unless the user has a file in its place, or it was taken away (but for `again`)."""
    with _locked(workspace.pk):
        known = _read(workspace.pk)
        if known.get("off") and not again:
            return
        before, digest = known.get("sha256", []), hashlib.sha256(content).hexdigest()
        # Before the file: whatever a crash leaves there is known.
        _write(workspace.pk, {"sha256": [digest, *before][:MOST]})
        root = paths.tree_of(workspace)
        if _put(root, content, partial(digests, workspace.pk)):
            _write(workspace.pk, {"sha256": [digest, *before[:1]]})  # a scan may have read the one before
        else:
            _write(workspace.pk, {"sha256": before})
            logger.info("%s has no manifest of %s: something else is there", root, workspace.key)


def take_away(workspace):
    """Remove the file if it is ours, and write none until the workspace is resumed."""
    with _locked(workspace.pk):
        known = _read(workspace.pk)
        _write(workspace.pk, known | {"off": True})
        try:
            mount_point.take_away(paths.tree_of(workspace), partial(digests, workspace.pk))
        except FileNotFoundError:
            pass  # there is none, or no folder any more
        except OSError:
            logger.exception("the manifest in %s could not be removed", paths.tree_of(workspace))


def _put(root: Path, content: bytes, shown: mount_point.Shown) -> bool:
    try:
        owner = os.stat(root)
        return mount_point.write(root, content, (owner.st_uid, owner.st_gid), shown)
    except OSError:
        return False


@contextmanager
def _locked(workspace_id) -> Iterator[None]:
    """Hold the record, which `disconnect` changes beside the runner."""
    folder = paths.folder_of(workspace_id)
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    lock = take_lock(folder / f"{RECORD}.lock")
    try:
        yield
    finally:
        os.close(lock)


def _read(workspace_id) -> dict:
    try:
        return json.loads((paths.folder_of(workspace_id) / RECORD).read_bytes())
    except FileNotFoundError:
        return {}


def _write(workspace_id, record: dict):
    replace_file(paths.folder_of(workspace_id) / RECORD, json.dumps(record).encode())
