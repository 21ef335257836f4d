"""Count the lines and files that differ between two trees of a team's store; what was counted is cached."""

import time

from django.core.cache import cache

from dashboard.problems import Problem
from workspaces.changes import stores
from workspaces.changes.comparisons import Changes, Lines, lines_of
from workspaces.store import StoreError

KEPT_SECONDS = 24 * 3600


def between(team_id, old: str, new: str, *, until: float | None = None) -> Lines | None:
    """Return what differs between two trees, as their comparison says it: without what git ignores.

    None if the store or a tree does not exist, or if it is not cached and time.monotonic() is past `until`.
    """
    if old == new:
        return Lines(0, 0, 0)
    key = f"changed-files:{team_id}:{old}:{new}"
    if (known := cache.get(key)) is not None:
        return Lines(*known)
    if until is not None and time.monotonic() > until:
        return None
    try:
        # The store's identity is not checked, to save queries: another store would not hold these trees.
        changes = Changes(stores.readable(team_id), (old, new))
        rows = changes.written()
        is_over = changes.count(rows)
    except (StoreError, Problem):
        return None
    found = lines_of(rows)
    if is_over:
        cache.set(key, tuple(found), KEPT_SECONDS)
    return found
