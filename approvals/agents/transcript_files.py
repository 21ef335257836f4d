"""Which files can be transcripts, and how they are opened: an agent names the path, so it is no proof of anything."""

import os
from pathlib import Path

MAX_PATH = 4096


def can_be(path: str, folder: str) -> bool:
    """Return whether a path can be a transcript: it is below such a folder, and its name that of JSON lines."""
    if not path.startswith("/") or len(path) > MAX_PATH:
        return False
    parts, wanted = Path(path).parts, tuple(folder.split("/"))
    is_below = any(parts[at : at + len(wanted)] == wanted for at in range(len(parts) - len(wanted)))
    return is_below and ".." not in parts and path.endswith(".jsonl")


def open_here(path: str) -> int:
    """Open a file of this machine that is reached without symlinks; what it is, is to be looked at. Raise OSError."""
    if os.path.realpath(path) != path:
        raise OSError("it is reached through a symlink")
    return os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
