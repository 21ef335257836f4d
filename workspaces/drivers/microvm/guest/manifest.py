"""The signed manifest that programs of this guest read at /workspace/.handrail/manifest.json.

It lies in a file system in memory that no program reaches. Only the file is mounted, read-only, over the mount point in
the tree, and that in the namespace of the programs alone: the server of the tree finds the mount point uncovered.
"""

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.join(HERE, "tree.pyz"))

from handrail_tree import mount_point  # noqa: E402
from root import (  # noqa: E402
    DISKS,
    MS_BIND,
    MS_NODEV,
    MS_NOEXEC,
    MS_NOSUID,
    MS_RDONLY,
    MS_REMOUNT,
    ROOT,
    check,
    libc,
    mount,
)

FOLDER = f"{DISKS}/manifest"
FILE = f"{FOLDER}/manifest.json"
ASIDE = MS_NOSUID | MS_NODEV | MS_NOEXEC
LARGEST = "size=16m"


def prepare(content, tree, uid):
    """Write the file if it can be mounted into the tree. Call it before any program runs."""
    if not mount_point.make(tree, uid):
        return  # the tree has a file of its own there
    mount("tmpfs", FOLDER, "tmpfs", ASIDE, f"mode=700,{LARGEST}")
    with open(FILE, "w") as file:
        file.write(content)
        os.fchmod(file.fileno(), 0o644)  # the mount is read-only
        os.fchown(file.fileno(), uid, uid)  # like every file of the tree


def cover(place):
    """Mount the file over the mount point in the tree at `place` of the programs' root, in this namespace."""
    if not os.path.exists(FILE):
        return
    target = f"{ROOT}{place}/{os.fsdecode(mount_point.PATH)}".encode()
    check(libc.mount(FILE.encode(), target, None, MS_BIND, None), "the manifest")
    check(libc.mount(None, target, None, MS_REMOUNT | MS_BIND | MS_RDONLY | ASIDE, None), "the manifest")


def replace(content):
    """Replace the content in place, since a mount shows the file that was mounted; do nothing if there is none."""
    try:
        fd = os.open(FILE, os.O_WRONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    with open(fd, "wb") as file:
        file.write(content.encode())
        file.truncate()
