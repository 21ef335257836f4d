"""The files of workspaces' sources as they came, before setup and agents: what the next revision is compared with.

Each is a tree in the team's store that `source["tree"]` of its workspace names. A revision without one deletes nothing.
"""

from collections.abc import Callable

from workspaces.models import Workspace
from workspaces.store import Store

TREE = "tree"


def of(workspace: Workspace, store: Store) -> str:
    """Return the id of the tree; "" if it is not known or was forgotten."""
    tree = workspace.source.get(TREE, "")
    return tree if tree and store.catalog.holds(bytes.fromhex(tree)) else ""


def of_team(team) -> dict[str, Workspace]:
    """Return the trees with a workspace of the team that names each."""
    rows = Workspace.objects.filter(team=team, purged_at=None, source__has_key=TREE)
    return {row.source[TREE]: row for row in rows.only("key", "source")}


def forget(team, has_value: Callable[[bytes], int]) -> dict[str, Workspace]:
    """Forget the trees of which `has_value` is true, and return them."""
    gone = {tree: row for tree, row in of_team(team).items() if has_value(bytes.fromhex(tree))}
    for row in Workspace.objects.filter(team=team, source__has_key=TREE):
        if row.source[TREE] in gone:
            source = {name: value for name, value in row.source.items() if name != TREE}
            Workspace.objects.filter(pk=row.pk).update(source=source)
    return gone
