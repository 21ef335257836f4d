"""The files of workspaces' sources as they came, before setup and agents: what the next revision is compared with.

Each is a tree in the team's store that the source of its workspace names, or one of the sources before it
(provisioning/source_history.py). Without one, whatever differs is a conflict.
"""

from collections.abc import Callable

from django.db.models import Q

from workspaces.models import Workspace
from workspaces.provisioning import source_history
from workspaces.provisioning.source_history import BEFORE, TREE
from workspaces.store import Store


def of(workspace: Workspace, store: Store) -> str:
    """Return the id of the tree; "" if it is not known or was forgotten."""
    tree = workspace.source.get(TREE, "")
    return tree if tree and store.catalog.holds(bytes.fromhex(tree)) else ""


def of_team(team) -> dict[str, Workspace]:
    """Return the trees with a workspace of the team that names each."""
    return {
        tree: row
        for row in _rows(team).filter(purged_at=None).only("key", "source")
        for tree in source_history.trees_of(row.source)
    }


def forget(team, has_value: Callable[[bytes], int]) -> dict[str, Workspace]:
    """Forget the trees of which `has_value` is true, and return them."""
    gone = {tree: row for tree, row in of_team(team).items() if has_value(bytes.fromhex(tree))}
    for row in _rows(team):
        if gone.keys() & set(source_history.trees_of(row.source)):
            source = source_history.without(row.source, gone)
            Workspace.objects.filter(pk=row.pk).update(source=source)
    return gone


def _rows(team):
    return Workspace.objects.filter(Q(source__has_key=TREE) | Q(source__has_key=BEFORE), team=team)
