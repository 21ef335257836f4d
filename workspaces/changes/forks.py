"""Two workspaces that began with the same snapshot, side by side: what each of them changed since then.

A fork and the workspace that it was made from, two forks of one workspace, any two whose forks lead to one, or two that
were cloned at one commit.
"""

import time
from dataclasses import dataclass, field
from functools import cached_property

from dashboard.problems import conflict, invalid
from workspaces.changes import history
from workspaces.changes.comparisons import Comparison, Point, compare
from workspaces.models import Snapshot, Workspace
from workspaces.provisioning import source_history
from workspaces.store.objects import FILE, FOLDER, Entry
from workspaces.store.text import text_diff

MAX_FORKS = 50  # of forks, one of the other, that are followed to the first
MERGE_SECONDS = 2.0  # for a look at the lines of files that both changed; what is left then counts as a conflict
LEFT, RIGHT, ALIKE, DIFFERENT = "left", "right", "alike", "different"


@dataclass(frozen=True)
class Origin:
    """Where a workspace comes from: itself as it is now (`number` is None), or a snapshot of another one.

    `first` is the workspace that was made from that snapshot.
    """

    workspace: Workspace
    number: int | None = None
    first: Workspace | None = None


@dataclass(frozen=True)
class Touched:
    """A path that one side changed. `entry` is what is there now; None if nothing is."""

    row: history.FileChange
    entry: Entry | None


@dataclass
class File:
    """A path that differs from the common snapshot on one side or on both.

    `state`: left, right, alike or different. `conflict`: git could not merge the two changes.
    """

    path: bytes
    state: str
    left: history.FileChange | None = None
    right: history.FileChange | None = None
    conflict: bool = False

    def as_json(self) -> dict:
        sides = {name: row.as_json() if row else None for name, row in (("left", self.left), ("right", self.right))}
        return {**history.path_fields("path", self.path), "state": self.state, "conflict": self.conflict, **sides}


@dataclass
class ForkComparison:
    """Two points of two workspaces, and the snapshot that both come from."""

    base: Point
    left: Point
    right: Point
    with_ignored: bool = False
    sides: tuple[Comparison, Comparison] = field(init=False)

    def __post_init__(self):
        self.sides = tuple(compare(self.base, point) for point in (self.left, self.right))

    @cached_property
    def rows(self) -> tuple[list[history.FileChange], list[history.FileChange]]:
        """The changes of each side."""
        left, right = (side.written(with_ignored=self.with_ignored) for side in self.sides)
        return left, right

    @property
    def left_out_count(self) -> int:
        return len(self.sides[0].left_out | self.sides[1].left_out)

    @cached_property
    def files(self) -> list[File]:
        """All changed paths by name; a file that one side renamed is at its new path, unless the other changed it too.

        The rows of both sides have no counted lines: `count` counts them.
        """
        left, right = (_by_path(rows) for rows in self.rows)
        inside = _blocked(left, right) | _blocked(right, left)
        until, found = time.monotonic() + MERGE_SECONDS, []
        for path in sorted(left.keys() | right.keys()):
            here, there = left.get(path), right.get(path)
            if here and there:
                found += self._both(path, here, there, until)
            elif (only := here or there).row.path == path:
                sides = {LEFT: only.row} if here else {RIGHT: only.row}
                found.append(File(path, LEFT if here else RIGHT, **sides, conflict=path in inside))
        return found

    def _both(self, path: bytes, left: Touched, right: Touched, until: float) -> list[File]:
        rows = left.row, right.row
        if _is_same(left.entry, right.entry):
            if left.entry is not None or (rows[0].path == rows[1].path == path):
                return [File(path, ALIKE, *rows)]
            if rows[0].path == rows[1].path:  # both renamed it alike: it is listed at its new path
                return []
        merges = time.monotonic() < until and self._merges(left, right)
        return [File(path, DIFFERENT, *rows, conflict=not merges)]

    def _merges(self, left: Touched, right: Touched) -> bool:
        """Return whether both changes of one path can be had: they are about its mode and content, or other lines."""
        old, sides = left.row.change.old, (left.entry, right.entry)
        if None in (old, *sides) or any(entry.kind != old.kind or not entry.kept for entry in (old, *sides)):
            return False
        if any(change.kind == "renamed" for change in (left.row, right.row)):
            return False
        if _clash(*(entry.mode for entry in (old, *sides))):
            return False
        if not _clash(*((entry.content, entry.target) for entry in (old, *sides))):
            return True
        if old.kind != FILE or any(entry.size > history.MAX_SHOWN for entry in (old, *sides)):
            return False
        store, path = history.store_of(self.left.workspace), left.row.path
        trees = self.sides[0].trees[0], self.sides[0].trees[1], self.sides[1].trees[1]
        return can_merge(*(store.read(tree, path) for tree in trees))

    def count(self, rows) -> bool:
        """Count the changed lines of these changes of either side as far as the time allows; return if all were."""
        are_counted = [side.count([row for row in rows if row.trees == side.trees]) for side in self.sides]
        return all(are_counted)

    def as_json(self) -> dict:
        """Return all of it with the lines counted, as far as history.COUNT_SECONDS allow."""
        rows = [row for file in self.files for row in (file.left, file.right) if row]
        history.count_rows(history.store_of(self.left.workspace), rows, history.COUNT_SECONDS)
        points = {"base": self.base, "left": self.left, "right": self.right}
        return {
            **{name: {"workspace": point.workspace.key, "at": str(point.at)} for name, point in points.items()},
            "counts": self.counts(),
            "left_out": self.left_out_count,
            "are_all_counted": all(row.additions is not None for row in rows),
            "files": [file.as_json() for file in self.files],
        }

    def counts(self) -> dict[str, int]:
        """Return how many files are in each state, and how many of them are conflicts."""
        states = [file.state for file in self.files]
        counted = {state: states.count(state) for state in (LEFT, RIGHT, ALIKE, DIFFERENT)}
        return counted | {"conflicts": sum(file.conflict for file in self.files)}


def compare_forks(left: Point, right: Point, *, with_ignored: bool = False) -> ForkComparison:
    """Put two points side by side. Problem 409 if no snapshot is known that both come from, 422 for one workspace."""
    if left.workspace == right.workspace:
        raise invalid("Name another workspace: this is the same one. Its own points are compared on Changes.")
    return ForkComparison(base_of(left.workspace, right.workspace), left, right, with_ignored)


def base_of(left: Workspace, right: Workspace) -> Point:
    """Return the snapshot that both come from. Problem 409 if there is none."""
    known = {origin.workspace.pk: origin for origin in lineage(right)}
    for mine in lineage(left):
        if other := known.get(mine.workspace.pk):
            return _kept(min((mine, other), key=lambda origin: (origin.number is None, origin.number)))
    if left.baseline and _commit_of(left) and _commit_of(left) == _commit_of(right):
        return Point(left, left.baseline.number)
    raise conflict(
        f"{left.key} and {right.key} come from no common snapshot: neither is a fork that leads to the other."
    )


def _commit_of(workspace: Workspace) -> tuple[str, str] | None:
    """Return (address, SHA) of what the workspace was cloned from; None if it was not cloned, or has revisions."""
    source = workspace.source
    is_first = source.get("git") and source.get("sha") and not source.get(source_history.BEFORE)
    return (source["git"], source["sha"]) if is_first else None


def lineage(workspace: Workspace) -> list[Origin]:
    """Return the workspace, and the snapshots that it comes from by forks, nearest first."""
    found = [Origin(workspace)]
    while (made_from := workspace.forked_from) and "fork" in workspace.source and len(found) < MAX_FORKS:
        found.append(Origin(made_from, workspace.source["fork"]["snapshot"], workspace))
        workspace = made_from
    return found


def relatives(workspace: Workspace, caller) -> list[Workspace]:
    """Return what can be beside a workspace, nearest first: its parent, its newest forks, other forks of its parent."""
    rows = Workspace.objects.visible_to(caller).kept().filter(team=workspace.team_id).exclude(pk=workspace.pk)
    parent, newest = workspace.forked_from_id, rows.order_by("-created_at")
    found = [*rows.filter(pk=parent)] if parent else []
    found += newest.filter(forked_from=workspace)[:MAX_FORKS]
    return [*found, *newest.filter(forked_from=parent)[:MAX_FORKS]] if parent else found


def can_merge(old: bytes, left: bytes, right: bytes) -> bool:
    """Return whether two versions of a text change other lines of it, with one unchanged line between them."""
    sides = [text_diff(old, new, context=0, max_bytes=history.MAX_SHOWN) for new in (left, right)]
    if any(side.binary or side.too_large for side in sides):
        return False
    first, second = ({_lines_of(hunk) for hunk in side.hunks} for side in sides)
    spans = [[span for span, _ in hunks] for hunks in (first - second, second - first)]
    return not any(a[0] <= b[1] and b[0] <= a[1] for a in spans[0] for b in spans[1])


def _lines_of(hunk) -> tuple:
    """Return ((first, last) place between the old lines that a hunk replaces, what it puts there)."""
    first = hunk.old_start - 1 if hunk.old_lines else hunk.old_start
    come = tuple((line.content, line.ends_without_newline) for line in hunk.lines if line.origin == "+")
    return (first, first + hunk.old_lines), come


def _kept(origin: Origin) -> Point:
    """Return the snapshot of an origin; if retention deleted it, the one with which its fork began."""
    numbered = Snapshot.objects.filter(workspace=origin.workspace, number=origin.number)
    if origin.workspace.purged_at is None and numbered.exists():
        return Point(origin.workspace, origin.number)
    began = Snapshot.objects.filter(workspace=origin.first, kind="fork").order_by("number").first()
    if began is None:
        raise conflict(f"Snapshot {origin.number} of {origin.workspace.key}, from which both come, is deleted.")
    return Point(origin.first, began.number)


def _by_path(rows) -> dict[bytes, Touched]:
    """Return what one side has at each path that it changed: a renamed file is at two."""
    found = {row.old_path: Touched(row, None) for row in rows if row.old_path}
    return found | {row.path: Touched(row, row.change.new) for row in rows}


def _blocked(mine: dict[bytes, Touched], other: dict[bytes, Touched]) -> set[bytes]:
    """Return the paths of `other` that are no folder, and inside of which this side has files."""
    parents = {path[:at] for path, it in mine.items() if it.entry for at, byte in enumerate(path) if byte == ord("/")}
    return {path for path in parents & other.keys() if (it := other[path].entry) is not None and it.kind != FOLDER}


def _is_same(left: Entry | None, right: Entry | None) -> bool:
    if left is None or right is None:
        return left is right
    return _compared_fields(left) == _compared_fields(right)


def _compared_fields(entry: Entry) -> tuple:
    """Return what a review is about; owners differ between a workspace and its forks, and times always."""
    return entry.kind, entry.mode, entry.flags, entry.kind != FOLDER and entry.content, entry.target


def _clash(old, left, right) -> bool:
    return left not in (old, right) and right != old
