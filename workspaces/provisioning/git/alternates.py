"""Check where a repository in a folder of this host has its objects: git reads them wherever its files lead."""

import os
from pathlib import Path

from workspaces.provisioning.git import addresses
from workspaces.provisioning.git.running import CloneFailed

MAX_BYTES = 1 << 16  # of a file that names alternates
MAX_PLACES = 100
WHAT = "Repositories that have objects elsewhere (alternates, links) are cloned"
UNREAD = "The repository names other places of its objects in a way that is not read here. Run `git repack -ad` in it."


def check_objects(repository: Path) -> None:
    """Check the folder of objects and all that it borrows from, also at second hand.

    Problem 422 if a place is outside of the allowed folders, CloneFailed if it cannot be told.
    """
    left, seen = [repository / "objects"], set()
    while left:
        place = Path(os.path.realpath(left.pop()))
        if place in seen or not _is_there(place):
            continue
        seen.add(addresses.allowed_folder(str(place), WHAT))
        if len(seen) > MAX_PLACES:
            raise CloneFailed(UNREAD)
        for link in _links(place):
            addresses.allowed_folder(os.path.dirname(os.path.realpath(link)), WHAT)
        left += _named_in(place)


def _is_there(place: Path) -> bool:
    """Return whether it is a folder that git could read; git passes over others."""
    return os.path.isdir(place) and os.access(place, os.R_OK | os.X_OK)


def _links(objects: Path) -> list[str]:
    """Return the symlinks among the folders of objects, and in those of packs and of what is beside them."""
    found: list[str] = []
    for folder in (objects, objects / "pack", objects / "info"):
        if os.path.isdir(folder):
            with os.scandir(folder) as entries:
                found += [entry.path for entry in entries if entry.is_symlink()]
    return found


def _named_in(objects: Path) -> list[Path]:
    """Return the places that `info/alternates` names; relative ones are relative to the folder of objects."""
    file = objects / "info" / "alternates"
    if not file.exists():
        return []
    if not file.is_file() or file.stat().st_size > MAX_BYTES:
        raise CloneFailed(UNREAD)
    lines = [os.fsdecode(line) for line in file.read_bytes().split(b"\n") if line and not line.startswith(b"#")]
    if any(line.startswith('"') or "\0" in line for line in lines):
        raise CloneFailed(UNREAD)
    return [objects / line for line in lines]
