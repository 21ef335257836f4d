"""The git submodules of a tree: at which commit each one is expected, and whether its files are there."""

import posixpath
import stat

from workspaces.changes.history import path_fields
from workspaces.git_files import index as git_index
from workspaces.git_files.index import GITLINK
from workspaces.manifests.git_state import INDEX_BYTES, MAX_INDEXED, UNREADABLE, bytes_of

NAMED = 200
DEEPEST = 8


def submodules_of(files) -> list[dict] | None:
    """Return [{path, sha, filled}] of the submodules of a tree and of those in them; None if it names none."""
    try:
        files.stat(b".gitmodules")
    except UNREADABLE:
        return None
    found: list[dict] = []
    _level(files, b"", found, 1)
    return found or None


def _level(files, prefix: bytes, found: list[dict], depth: int) -> None:
    try:
        data = bytes_of(files, _git_folder(files, prefix) + b"/index", INDEX_BYTES)
        modules = {path: entry.sha for path, entry in git_index.entries(data, MAX_INDEXED) if entry.mode == GITLINK}
    except UNREADABLE:
        return
    for path, sha in modules.items():
        if len(found) >= NAMED:
            return
        whole = prefix + path
        filled = _is_there(files, whole + b"/.git")
        found.append(path_fields("path", whole) | {"sha": sha.hex(), "filled": filled})
        if filled and depth < DEEPEST:
            _level(files, whole + b"/", found, depth + 1)


def _git_folder(files, prefix: bytes) -> bytes:
    """Return the path of the .git folder of the repository at the prefix; a submodule's is elsewhere."""
    path = prefix + b".git"
    if stat.S_ISDIR(files.stat(path).st_mode):
        return path
    leads = bytes_of(files, path, 4096).removeprefix(b"gitdir: ").rstrip(b"\n")
    folder = posixpath.normpath(posixpath.join(prefix, leads))
    if folder.startswith((b"/", b"..")):
        raise ValueError("its .git lies outside of the tree")
    return folder


def _is_there(files, path: bytes) -> bool:
    try:
        files.stat(path)
    except UNREADABLE:
        return False
    return True
