"""Write and delete live files of a workspace, and tell which changes need a person if an agent makes them."""

from collections.abc import Iterable, Iterator

from dashboard.models import Actor
from dashboard.problems import Problem
from workspaces.changes import guarded
from workspaces.changes.history import LIVE, as_base64, changes_of_trees, listing, store_of, tree_at
from workspaces.models import Workspace
from workspaces.operations import needs_approval, runner_client
from workspaces.store import Change
from workspaces.store.objects import FOLDER
from workspaces.store.plan import chooser
from workspaces.store.safe_open import split_path


def require_write(workspace: Workspace, path: bytes, data: bytes, *, by: Actor):
    """Raise Problem for a path that agents may not write, AskFirst where a person has to allow the write."""
    needs_approval.check_file(path, by=by)
    asks = needs_approval.asks_nobody(workspace, by) and _needs_a_person(workspace, path)
    needs_approval.require(workspace, "write", {"path": path, "data": data}, by=by, always=asks)


def _needs_a_person(workspace, path: bytes) -> bool:
    """Return whether an agent's change of this live path needs a person."""

    def names_in(folder: bytes) -> set[bytes]:
        try:
            return {item.name for item in listing(workspace, LIVE, folder) or ()}
        except Problem as problem:
            if problem.status != 404:
                raise
            return set()

    return guarded.needs_a_person(path) or guarded.is_in_bare_repository(path, names_in)


def write_file(workspace: Workspace, path: bytes, data: bytes, *, by: Actor) -> bool:
    """Write a live file, entirely or not at all; return True if it is new."""
    require_write(workspace, path, data, by=by)
    return runner_client.ask("PUT", workspace, "file", body=data, path=as_base64(path))["created"]


def delete_file(workspace: Workspace, path: bytes, *, by: Actor):
    """Delete a live file, a symlink, or a folder with its contents."""
    needs_approval.check_file(path, by=by)
    asks = needs_approval.asks_nobody(workspace, by) and (
        _needs_a_person(workspace, path) or _holds_guarded(workspace, path)
    )
    needs_approval.require(workspace, "remove", {"path": path}, by=by, always=asks)
    runner_client.ask("DELETE", workspace, "file", path=as_base64(path))


def _holds_guarded(workspace, path: bytes) -> bool:
    """Return whether a live folder has something below it that an agent's change of needs a person."""
    if listing(workspace, LIVE, path) is None:
        return False
    inside = b"/".join(split_path(path))
    return guarded.any_in(store_of(workspace), tree_at(workspace, LIVE), inside, guarded.needs_a_person)


def changes_guarded(workspace, tree: str, names: list[bytes] = ()) -> bool:
    """Return whether putting a tree, or these paths of it, in place of the live files needs a person for an agent."""
    rows = changes_of_trees(workspace, tree_at(workspace, LIVE), tree, count=False, owners=False)
    paths = guarded_of(row.change for row in rows)
    chosen = chooser(names or [b""])
    return any(chosen(path) for path in paths)


def guarded_of(changes: Iterable[Change]) -> Iterator[bytes]:
    """Yield the paths of changes that need a person for an agent. The gate's own files are kept in any case."""
    for change in changes:
        if (change.old is None or change.new is None) and (change.old or change.new).kind == FOLDER:
            continue  # what comes or goes in it is a change of its own
        for path in filter(None, (change.path, change.old_path)):
            if path not in needs_approval.HOOK_FILES and guarded.needs_a_person(path):
                yield path
