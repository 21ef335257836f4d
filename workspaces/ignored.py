"""Which changed files are left out of a review, because git ignores them or a tool builds them.

A file is left out only if the rules of both trees ignore it: a pattern that was added between them, perhaps by the
agent whose work is reviewed, hides nothing.
"""

import logging

from django.core.cache import cache

from dashboard.workers.pool import Late, Worker, Workers
from workspaces.ignoring import BUILT
from workspaces.store import Store, StoreError
from workspaces.store.objects import FILE, FOLDER

logger = logging.getLogger("handrail.web")

SECONDS = 10.0
MAX_FOLDERS = 400  # whose .gitignore is read in one comparison
MAX_BYTES = 64 * 1024  # of one .gitignore
KEPT_SECONDS = 600
NAME = b".gitignore"
_BUILT_FOLDERS = {name.rstrip("/").encode() for name in BUILT if name.endswith("/") and "*" not in name}

matchers = Workers(lambda: Worker("workspaces.ignoring"), 1, queue_seconds=SECONDS)


def ignored(store: Store, trees: tuple[str, str], paths: list[bytes]) -> frozenset[bytes]:
    """Return those of the changed paths that are left out; none if the patterns take too long."""
    key = f"ignored:{store.id}:{trees[0]}:{trees[1]}"
    if (found := cache.get(key)) is not None:
        return found
    names = [path.decode("utf-8", "surrogateescape") for path in paths]
    rules = [_rules(store, tree, paths) for tree in trees]
    try:
        indexes = matchers.ask({"trees": rules, "paths": names}, SECONDS)["ignored"]
    except Late as late:
        logger.warning("no file is ignored between %s and %s: %s", *trees, late)
        indexes = []
    found = frozenset(paths[index] for index in indexes)
    cache.set(key, found, KEPT_SECONDS)
    return found


def _rules(store: Store, tree: str, paths: list[bytes]) -> dict[str, list[str]]:
    """Return {folder with a slash at its end: lines} of each .gitignore at or above the paths."""
    found: dict[str, list[str]] = {}
    folders = {b""} | {b"/".join(parts[:n]) for parts in map(_folders_of, paths) for n in range(1, len(parts) + 1)}
    for folder in sorted(folders, key=lambda name: (name.count(b"/"), name))[:MAX_FOLDERS]:
        text = _gitignore(store, tree, folder)
        if text is not None:
            name = folder.decode("utf-8", "surrogateescape")
            found[f"{name}/" if name else ""] = text.decode("utf-8", "surrogateescape").splitlines()
    return found


def _folders_of(path: bytes) -> list[bytes]:
    """Return the names of the folders that a path is in, up to one that is left out anyway."""
    parts = path.split(b"/")[:-1]
    built = next((n for n, part in enumerate(parts) if part in _BUILT_FOLDERS), len(parts))
    return parts[:built]


def _gitignore(store: Store, tree: str, folder: bytes) -> bytes | None:
    try:
        inside = store.entry(tree, folder) if folder else store.root(tree)
        entry = store.catalog.folder(inside.content).find(NAME) if inside.kind == FOLDER and inside.kept else None
        if entry is None or entry.kind != FILE or not entry.kept or entry.size > MAX_BYTES:
            return None
        return store.read(tree, b"/".join(part for part in (folder, NAME) if part))
    except StoreError:
        return None
