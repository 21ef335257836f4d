"""Unmount a folder, whether it is still served or not."""

import ctypes
import os
import subprocess
import time
from contextlib import suppress
from pathlib import Path

WAIT_S = 20.0
_MNT_DETACH = 2


def unmount(place: Path) -> None:
    """Unmount what is mounted at the place, in use or not, and whether it is still served or not."""
    deadline = time.monotonic() + WAIT_S
    while _is_mounted(place) and time.monotonic() < deadline:
        if ctypes.CDLL(None).umount2(os.fsencode(place), _MNT_DETACH) != 0:
            with suppress(FileNotFoundError):
                subprocess.run(["fusermount3", "-u", "-z", "--", place], capture_output=True, check=False)
            time.sleep(0.02)


def _is_mounted(place: Path) -> bool:
    try:
        return os.path.ismount(place) if os.path.lexists(place) else False
    except OSError:  # nobody serves it any more
        return True
