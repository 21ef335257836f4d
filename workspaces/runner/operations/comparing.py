"""The proof: compare the live tree of a workspace with its newest snapshot."""

from dashboard.database import clock
from workspaces.runner import snapshots

BY_STAT = "size and times, and content where these differ"
BY_CONTENT = "every byte"
MAX_NAMED = 100  # differing paths listed in a proof


def prove(workspace, tree, *, full: bool = False, lend: bool = True) -> dict:
    """Compare the live tree with the newest snapshot; `lend` as for `Store.compare`.

    Return {at, snapshot, entries, differ, names, how}: `differ` counts the differing paths, `names` lists the first.
    """
    if workspace.head is None:
        return {"at": clock.now().isoformat(), "snapshot": None, "entries": 0, "differ": 0, "names": [], "how": "none"}
    found = snapshots.store_of(workspace).compare(workspace.head.tree_hex, tree, full=full, lend=lend)
    return {
        "at": clock.now().isoformat(),
        "snapshot": workspace.head.number,
        "entries": found.entries,
        "differ": len(found.differ),
        "names": [path.decode("utf-8", "backslashreplace") or "." for path in found.differ[:MAX_NAMED]],
        "how": BY_CONTENT if full else BY_STAT,
    }
