"""Paths and files of a sandbox in envd's terms."""

import posixpath
import stat
from datetime import UTC, datetime

from approvals.evaluation.calls import root_of
from approvals.protocols.e2b.wire import EXISTS
from dashboard.problems import Problem, invalid, not_found
from workspaces.changes import guarded, history
from workspaces.changes.history import FIRST_S, LAST_S, LIVE, Item

TYPES = {"file": "FILE_TYPE_FILE", "folder": "FILE_TYPE_DIRECTORY", "symlink": "FILE_TYPE_SYMLINK"}
BITS = {"file": stat.S_IFREG, "folder": stat.S_IFDIR, "symlink": stat.S_IFLNK}
OWNER = "user"  # as whom all programs of a sandbox run
MOST_ENTRIES = 20_000  # in one answer


def inside(workspace, path: str) -> bytes:
    """Return a path of the sandbox relative to the workspace's files. Problem 422 if it is elsewhere.

    A relative path begins where the files are.
    """
    if not isinstance(path, str) or "\0" in path:
        raise invalid("A path is a text without NUL.")
    root = root_of(workspace)
    whole = posixpath.normpath(posixpath.join(root, path))
    if whole != root and not whole.startswith(root + "/"):
        raise invalid(f"Files are read and written below {root}; use a command for {whole}.")
    return whole[len(root) + 1 :].encode("utf-8", "surrogateescape")


def stat_of(workspace, path: bytes) -> dict:
    """Return the entry of a path. Problem 404."""
    if not path:
        return entry(workspace, b"", Item(b"", "folder", 0, 0o755, 0.0))
    folder, name = posixpath.split(path)
    for item in history.listing(workspace, LIVE, folder) or ():
        if item.name == name:
            return entry(workspace, folder, item)
    raise not_found("file or folder")


def refuse_existing(workspace, path: bytes):
    """Raise the refusal by which the SDKs tell that a folder is there. Problem 422 if a file is."""
    try:
        found = stat_of(workspace, path)
    except Problem as problem:
        if problem.status != 404:
            raise
        return
    if found["type"] != TYPES["folder"]:
        raise invalid(f"{found['path']} is no folder.")
    raise Problem(409, f"{found['path']} exists already.", connect_code=EXISTS)


def below(workspace, folder: bytes, depth: int) -> list[dict]:
    """Return the entries of a folder, those of `depth` levels, each folder before what is in it. Problem 404, 422."""
    items = history.listing(workspace, LIVE, folder)
    if items is None:
        raise invalid(f"{_whole(workspace, folder)} is no folder.")
    found = []
    for item in sorted(items, key=lambda item: item.name):
        found.append(entry(workspace, folder, item))
        if item.type == "folder" and depth > 1:
            found += _inside(workspace, posixpath.join(folder, item.name), depth - 1)
        if len(found) > MOST_ENTRIES:
            raise invalid(f"The folder holds more than {MOST_ENTRIES:,} entries. List less of it.")
    return found


def _inside(workspace, folder: bytes, depth: int) -> list[dict]:
    """Return what `below` does; nothing of a folder that has gone meanwhile, or that holds secrets and is not shown."""
    try:
        return below(workspace, folder, depth)
    except Problem as problem:
        if problem.status != 404 and problem.extra.get("code") != guarded.CODE:
            raise
        return []


def entry(workspace, folder: bytes, item: Item) -> dict:
    """Return a file, folder or link in the form of envd's EntryInfo."""
    kind = item.type if item.type in TYPES else "file"
    path = _whole(workspace, posixpath.join(folder, item.name) if item.name else folder)
    modified = datetime.fromtimestamp(min(max(item.mtime, FIRST_S), LAST_S), UTC)
    found = {
        "name": posixpath.basename(path),
        "type": TYPES[kind],
        "path": path,
        "size": str(item.size or 0),
        "mode": item.mode,
        "permissions": stat.filemode(BITS[kind] | item.mode),
        "owner": OWNER,
        "group": OWNER,
        "modifiedTime": modified.isoformat().replace("+00:00", "Z"),
    }
    return found | ({"symlinkTarget": item.target.decode("utf-8", "replace")} if kind == "symlink" else {})


def written(workspace, path: bytes) -> dict:
    """Return what the SDKs read of a file that they wrote."""
    whole = _whole(workspace, path)
    return {"name": posixpath.basename(whole), "type": "file", "path": whole}


def _whole(workspace, path: bytes) -> str:
    return posixpath.join(root_of(workspace), path.decode("utf-8", "replace")) if path else root_of(workspace)
