"""The source of events of each watched tree: one for all trees of a file system, or else one for each tree."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

from .fanotify import Kernel
from .inotify import Inotify
from .marks import Marks

if TYPE_CHECKING:
    from .watched import Watched

WAYS: tuple[type[Kernel], ...] = (Kernel, Marks, Inotify)  # the first that the kernel grants is taken

_shared: dict[int, Kernel] = {}  # by the device of the file system
_lock = threading.Lock()


def join(root: int, tree: Watched) -> Kernel:
    """Add the tree of an open folder to a source of its events. Raise OSError if the kernel grants none."""
    with _lock:
        device = os.fstat(root).st_dev
        kernel = _shared.get(device) or _first_granted(root)
        if kernel.is_shared:
            _shared[device] = kernel
        kernel.add(tree)
        return kernel


def _first_granted(root: int) -> Kernel:
    *before, last = WAYS
    for way in before:
        try:
            return way(root)
        except OSError:
            continue
    return last(root)


def leave(kernel: Kernel, tree: Watched) -> None:
    with _lock:
        if kernel.remove(tree):
            for device in [device for device, known in _shared.items() if known is kernel]:
                del _shared[device]
            kernel.close()


__all__ = ["join", "leave"]
