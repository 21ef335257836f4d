"""A file system with reflinks, XFS in a file, whatever this machine has."""

import os
import shutil
import subprocess
from contextlib import contextmanager

MKFS = shutil.which("mkfs.xfs", path=f"{os.environ['PATH']}:/usr/sbin:/sbin")


@contextmanager
def mounted_with_reflinks(folder, require):
    """Mount one of 400 MB at `folder/mounted`; `require` is the fixture."""
    if os.geteuid() != 0:
        require("root", "only root mounts file systems")
    if MKFS is None:
        require("mkfs.xfs", "xfsprogs makes a file system with reflinks")
    image, mounted = folder / "image", folder / "mounted"
    with open(image, "wb") as file:
        file.truncate(400 << 20)
    mounted.mkdir()
    subprocess.run([MKFS, "-q", "-m", "reflink=1", image], check=True)
    subprocess.run(["mount", "-o", "loop", image, mounted], check=True)
    try:
        yield mounted
    finally:
        subprocess.run(["umount", "--lazy", mounted], check=True)  # the store's index is still mapped
