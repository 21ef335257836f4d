"""Count the lines and files that differ between two trees of a team's store; what was counted is cached."""

import time
from itertools import islice
from typing import NamedTuple

from django.core.cache import cache

from workspaces import paths
from workspaces.store import Store, StoreError
from workspaces.store import text as store_text
from workspaces.store.objects import FOLDER

MAX_COUNTED = 2000  # files whose lines are counted in one comparison; further ones count as files only
KEPT_SECONDS = 24 * 3600


class Lines(NamedTuple):
    """Lines added and removed, and files that differ, all without what is inside a `.git`."""

    additions: int
    deletions: int
    files: int


def between(team_id, old: str, new: str, *, until: float | None = None) -> Lines | None:
    """Return what differs between two trees.

    None if the store or a tree does not exist, or if it is not cached and time.monotonic() is past `until`.
    """
    if old == new:
        return Lines(0, 0, 0)
    key = f"changed-lines:{team_id}:{old}:{new}"
    if (known := cache.get(key)) is not None:
        return Lines(*known)
    if until is not None and time.monotonic() > until:
        return None
    try:
        # The store's identity is not checked, to save queries: another store would not hold these trees.
        found = _counted(Store.open(paths.store_of(team_id)), old, new)
    except StoreError:
        return None
    cache.set(key, tuple(found), KEPT_SECONDS)
    return found


def _counted(store: Store, old: str, new: str) -> Lines:
    written = (change for change in store.diff(old, new) if not store_text.inside_git(change.path))
    changes = [change for change in written if not _is_folder(change)]
    texts = [store_text.diff_of_change(store, change, hunks=False) for change in islice(changes, MAX_COUNTED)]
    return Lines(sum(text.additions for text in texts), sum(text.deletions for text in texts), len(changes))


def _is_folder(change) -> bool:
    return all(side is None or side.kind == FOLDER for side in (change.old, change.new))
