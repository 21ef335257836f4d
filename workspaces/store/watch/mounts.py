"""What is mounted inside a tree: a mount changes what a walk sees, and raises no event."""

import os
import re

_ESCAPED = re.compile(rb"\\([0-7]{3})")


def mounts_below(path: str) -> frozenset[str]:
    """Return the mount points below a folder, given by its real path, relative to it."""
    below = path.rstrip("/") + "/"
    with open("/proc/self/mountinfo", "rb") as file:
        lines = file.read().split(b"\n")
    names = (_unescaped(line.split(b" ", 5)[4]) for line in lines if line)
    return frozenset(name.removeprefix(below) for name in names if name.startswith(below))


def _unescaped(point: bytes) -> str:
    return os.fsdecode(_ESCAPED.sub(lambda found: bytes([int(found[1], 8)]), point))
