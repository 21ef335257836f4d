"""What is mounted at a folder or inside a tree: a mount changes what a walk sees, and raises no event."""

import os
import re

_ESCAPED = re.compile(rb"\\([0-7]{3})")


def mounts_below(path: str) -> frozenset[tuple[str, ...]]:
    """Return the mounts below a folder, given by its real path: mount point relative to it, device, mounted folder."""
    below = path.rstrip("/") + "/"
    return frozenset((point.removeprefix(below), *what) for point, *what in _mounts() if point.startswith(below))


def is_mount_point(path: str | os.PathLike) -> bool:
    """Return whether anything is mounted at a path, without a look at it: nobody may serve it any more."""
    above, name = os.path.split(os.path.abspath(path))
    return os.path.join(os.path.realpath(above), name) in (point for point, *_ in _mounts())


def _mounts() -> list[tuple[str, str, str]]:
    with open("/proc/self/mountinfo", "rb") as file:
        lines = file.read().split(b"\n")
    fields = [line.split(b" ", 5) for line in lines if line]
    return [(_unescaped(point), _unescaped(device), _unescaped(root)) for _, _, device, root, point, _ in fields]


def _unescaped(point: bytes) -> str:
    return os.fsdecode(_ESCAPED.sub(lambda found: bytes([int(found[1], 8)]), point))
