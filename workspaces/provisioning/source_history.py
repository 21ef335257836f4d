"""Which source the files of a workspace descend from, now and at each of its snapshots.

A revision gives a workspace another source, and going back to a snapshot from before it gives the old one back. What a
source was until which snapshot is kept in the source itself, the oldest first:
`source["before"] = [{"until": number of a snapshot, "source": …}]`.
"""

from collections.abc import Callable

from workspaces.models import Workspace

TREE = "tree"  # the files of the source as they came, before setup and agents: a tree in the team's store
BEFORE = "before"
OWN = (TREE, BEFORE)  # what no caller asked for or is told
MOST = 20


def public_part(source: dict) -> dict:
    """Return a source without what Handrail keeps in it for itself."""
    return {name: value for name, value in source.items() if name not in OWN}


def at(workspace: Workspace, number: int) -> dict:
    """Return the source that the files in a snapshot descend from."""
    for was in workspace.source.get(BEFORE, ()):
        if number <= was["until"]:
            return was["source"]
    return _now(workspace)


def replaced(workspace: Workspace, source: dict, *, until: int) -> dict:
    """Return the source to keep when another takes its place: snapshots up to `until` have the one of before."""
    before = [*workspace.source.get(BEFORE, ()), {"until": until, "source": _now(workspace)}]
    if len(before) > MOST:  # of the two oldest it is not told apart any more which files came
        oldest = {name: value for name, value in before[1]["source"].items() if name not in (TREE, "sha")}
        before[:2] = [before[1] | {"source": oldest}]
    return {name: value for name, value in source.items() if name != BEFORE} | {BEFORE: before}


def gone_back(workspace: Workspace, number: int, *, until: int) -> dict:
    """Return the source to keep once all files are those of a snapshot; those up to `until` have the one of before."""
    source = at(workspace, number)
    return workspace.source if source == _now(workspace) else replaced(workspace, source, until=until)


def trees_of(source: dict) -> list[str]:
    """Return the ids of the trees that a source names, also those of sources before it."""
    each = [source, *(was["source"] for was in source.get(BEFORE, ()))]
    return [one[TREE] for one in each if TREE in one]


def without(source: dict, trees) -> dict:
    """Return a source that names none of these trees."""
    return changed(
        source, lambda one: {name: value for name, value in one.items() if name != TREE or value not in trees}
    )


def changed(source: dict, change: Callable[[dict], dict]) -> dict:
    """Return a source with the same change made to it and to those before it."""
    new = change(source)
    if BEFORE in source:
        new = new | {BEFORE: [was | {"source": change(was["source"])} for was in source[BEFORE]]}
    return new


def _now(workspace: Workspace) -> dict:
    return {name: value for name, value in workspace.source.items() if name != BEFORE}
