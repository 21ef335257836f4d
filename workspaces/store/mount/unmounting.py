"""Unmount a folder, whether it is still served or not."""

import ctypes
import os
import subprocess
import time
from contextlib import suppress
from pathlib import Path

from ..mount_table import is_mount_point

WAIT_S = 20.0
_MNT_DETACH = 2


def unmount(place: Path) -> None:
    """Unmount what is mounted at the place, in use or not, and whether it is still served or not.

    The kernel's list of mounts is asked, not the folder: a process that ends has stopped to serve before it unmounts,
    and in between a look at the folder fails as if it were not there.
    """
    deadline = time.monotonic() + WAIT_S
    while is_mount_point(place) and time.monotonic() < deadline:
        if ctypes.CDLL(None).umount2(os.fsencode(place), _MNT_DETACH) != 0:
            with suppress(FileNotFoundError):
                subprocess.run(["fusermount3", "-u", "-z", "--", place], capture_output=True, check=False)
            time.sleep(0.02)
