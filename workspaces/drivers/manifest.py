"""The file that a driver mounts read-only over the mount point in a tree: the manifest that programs read there."""

import os
from pathlib import Path

from .base import RunSpec

NAME = "manifest.json"
PATH = f".handrail/{NAME}"  # below the tree; the store leaves its mount point out (`store/mount_point.py`)


def write(folder: Path, spec: RunSpec) -> bool:
    """Write `spec.manifest` into a folder of the Run; return whether it can be mounted into the tree.

    Call it before the Run starts: no program of the workspace may change the tree meanwhile.
    """
    from workspaces.store import mount_point  # deferred: host processes import drivers and must start quickly

    if not spec.manifest or not mount_point.make(spec.workspace, spec.uid):
        return False
    file = folder / NAME
    file.write_bytes(spec.manifest)
    file.chmod(0o644)  # the mount is read-only
    if os.getuid() == 0:
        os.chown(file, spec.uid, spec.uid)  # like every file of the tree
    return True


def replace(folder: Path, content: bytes) -> None:
    """Replace the content in place, since a mount shows the file that was mounted; do nothing if there is none."""
    try:
        fd = os.open(folder / NAME, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return  # the Run shows none, or is gone
    with open(fd, "wb") as file:
        file.write(content)
        file.truncate()
