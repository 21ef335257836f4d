"""Merge a revision into files without a git repository: three trees of the store, as store/merge.py says.

The first tree is the source as it was, which the workspace names as `source["tree"]` (services/source_trees.py).
"""

import os
import tempfile
from pathlib import Path

from workspaces.changes import file_writes, history
from workspaces.models import Snapshot, Workspace
from workspaces.operations import needs_approval
from workspaces.operations.needs_approval import HOOK_FILES
from workspaces.runner.refusals import CONFLICTS_NAMED
from workspaces.services import source_trees
from workspaces.services.notes import lessons, versions
from workspaces.store import LocalTree, Store
from workspaces.store.diff import reviewed
from workspaces.store.merge import Conflict, Merged, merge
from workspaces.store.text import inside_git

OURS = frozenset({versions.PATH, lessons.PATH})  # files that Handrail puts into every workspace


def merged(
    workspace: Workspace, store: Store, base: Snapshot | None, live: str, coming: str, *, name: str, by, cancel
) -> Merged:
    """Merge a fetched tree with the live one; nothing is put into the files yet.

    Where the source's tree is not known, the snapshot `base`, which the caller has seen, stands for it: it may have
    files of the setup script, so a file that it has and the revision has not is no deletion. Without one nothing does,
    and each path that differs is a conflict. An agent's merge leaves the files of the gate.
    """
    known = source_trees.of(workspace, store)
    first = known or (base.tree_hex if base else _nothing(store, coming, cancel))
    apart = OURS | frozenset(HOOK_FILES if by.type == "agent" else ())
    return merge(
        store,
        first,
        live,
        coming,
        name=name,
        apart=lambda path: inside_git(path) or path in apart,
        deletions=bool(known),
        cancel=cancel,
    )


def _nothing(store: Store, like: str, cancel) -> str:
    """Store a tree without an entry, with the mode of another one's folder; return its id."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, store.root(like).mode & 0o777)
        return store.snapshot(LocalTree(Path(folder)), cancel=cancel).tree


def needs_a_person(store: Store, live: str, merge: Merged, *, by) -> bool:
    """Return whether the merge changes files that an agent may not without a person."""
    if not needs_approval.is_unapproved(by):
        return False
    return any(file_writes.guarded_of(reviewed(store.diff(live, merge.tree))))


def conflict_fields(conflicts: list[Conflict]) -> list[dict]:
    """Return conflicts as the outcome of an operation names them, at most CONFLICTS_NAMED."""
    return [
        history.path_fields("path", found.path) | {"why": found.why, "lines": [list(part) for part in found.lines]}
        for found in conflicts[:CONFLICTS_NAMED]
    ]
