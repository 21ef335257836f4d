"""What is mounted at a folder or inside a tree: a mount changes what a walk sees, and raises no event."""

import os
import re

_ESCAPED = re.compile(rb"\\([0-7]{3})")


def mounts_below(path: str) -> frozenset[str]:
    """Return the mount points below a folder, given by its real path, relative to it."""
    below = path.rstrip("/") + "/"
    return frozenset(point.removeprefix(below) for point in _mount_points() if point.startswith(below))


def is_mount_point(path: str | os.PathLike) -> bool:
    """Return whether anything is mounted at a path, without a look at it: nobody may serve it any more."""
    above, name = os.path.split(os.path.abspath(path))
    return os.path.join(os.path.realpath(above), name) in _mount_points()


def _mount_points() -> list[str]:
    with open("/proc/self/mountinfo", "rb") as file:
        lines = file.read().split(b"\n")
    return [_unescaped(line.split(b" ", 5)[4]) for line in lines if line]


def _unescaped(point: bytes) -> str:
    return os.fsdecode(_ESCAPED.sub(lambda found: bytes([int(found[1], 8)]), point))
