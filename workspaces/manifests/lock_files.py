"""The digests of a tree's lock files, which say what its dependencies are."""

import hashlib
import re
import stat
from collections.abc import Iterator

from workspaces.changes.history import path_fields
from workspaces.store import StoreError
from workspaces.store.files import read_whole

LOCK_FILE = re.compile(
    rb"package-lock\.json|npm-shrinkwrap\.json|yarn\.lock|pnpm-lock\.yaml|bun\.lockb?|deno\.lock|poetry\.lock|pdm\.lock|"
    rb"uv\.lock|pylock(\.[\w-]+)?\.toml|Pipfile\.lock|conda-lock\.ya?ml|pixi\.lock|requirements[\w.-]*\.txt|"
    rb"constraints[\w.-]*\.txt|Cargo\.lock|go\.sum|go\.work\.sum|Gemfile\.lock|composer\.lock|mix\.lock|rebar\.lock|"
    rb"pubspec\.lock|Podfile\.lock|Package\.resolved|packages\.lock\.json|gradle\.lockfile|flake\.lock|stack\.yaml\.lock|"
    rb"cabal\.project\.freeze|\.terraform\.lock\.hcl|MODULE\.bazel\.lock|Chart\.lock"
)
LEFT_OUT = {b".git", b".hg", b"node_modules", b".venv", b"venv", b"site-packages", b"target", b"vendor", b".tox"}
DEPTH = 3  # folders below the root
MAX_FOLDERS = 400
MAX_FILES = 50
MAX_BYTES = 32 << 20  # of all of them


def lock_files_of(files) -> list[dict]:
    """Return [{path, sha256}] of the lock files, by path; `sha256` is None for one beyond the limits."""
    found, left = [], MAX_BYTES
    for path, size in sorted(_paths(files))[:MAX_FILES]:
        left -= size
        try:
            digest = hashlib.sha256(read_whole(files, path, size)).hexdigest() if left >= 0 else None
        except (StoreError, OSError):
            continue
        found.append(path_fields("path", path) | {"sha256": digest})
    return found


def _paths(files) -> Iterator[tuple[bytes, int]]:
    folders, seen = [(b"", 0)], 0
    while folders and seen < MAX_FOLDERS:
        (folder, depth), seen = folders.pop(0), seen + 1
        prefix = folder + b"/" if folder else b""
        try:
            listed = list(files.entries(folder))
        except (StoreError, OSError):
            continue
        for name, found in listed:
            if stat.S_ISREG(found.st_mode) and LOCK_FILE.fullmatch(name):
                yield prefix + name, found.st_size
            elif stat.S_ISDIR(found.st_mode) and depth < DEPTH and name not in LEFT_OUT:
                folders.append((prefix + name, depth + 1))


def changes(was: list[dict] | None, now: list[dict] | None) -> list[dict]:
    """Return [{path, change}] of two lists of `lock_files_of`, by path; `change`: changed, added or removed.

    Files whose digest is not known on one side are left out, and so is everything where a side was not recorded.
    """
    if was is None or now is None:
        return []
    old, new = ({item["path"]: item.get("sha256") for item in side} for side in (was, now))
    found = []
    for path in sorted(old.keys() | new.keys()):
        if path not in old:
            found.append({"path": path, "change": "added"})
        elif path not in new:
            found.append({"path": path, "change": "removed"})
        elif None not in (old[path], new[path]) and old[path] != new[path]:
            found.append({"path": path, "change": "changed"})
    return found
