"""What a person reviews between two points: the changed files, which of them count, and which were seen.

The points may be of two workspaces of one team, whose snapshots are in one store.
"""

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from dashboard.problems import invalid, not_found
from workspaces.changes import guarded, history, ignored
from workspaces.git_files import committed
from workspaces.models import Workspace
from workspaces.operations import absent
from workspaces.store import Store, StoreError, text
from workspaces.store.diff import ADDED, MODE, MODIFIED, REMOVED, RENAMED, TYPE, Change
from workspaces.store.objects import FILE, FOLDER
from workspaces.store.safe_open import BadPath

COUNTED = 50  # files whose lines are counted at once
COUNT_SECONDS = 1.0  # for counting those of further files; what is not counted by then is counted for the next page
LEAST_MOVED = 2  # files that moved with their folder, to be shown as one row


class Point(NamedTuple):
    """A moment of a workspace: `at` is the number of a snapshot, or "live"."""

    workspace: Workspace
    at: int | str

    @property
    def tree(self) -> str:
        return history.tree_at(self.workspace, self.at)


def find_point(name: str, workspace: Workspace, caller) -> Point:
    """Return the point with this name: "12", "live", or with another workspace's key "fork:12".

    Problem 422 for anything else, 404 for a workspace that the caller may not see or that is another team's.
    """
    key, _, at = name.rpartition(":")
    if "\0" in key or (at != history.LIVE and not (at.isdecimal() and at.isascii() and len(at) < 10)):
        raise invalid("Give a snapshot number, or live; for another workspace its key before that, as in fork:12.")
    place = workspace
    if key and key != workspace.key:
        named = Workspace.objects.visible_to(caller).filter(team=workspace.team_id, key=key)
        place = named.kept().select_related("team").first()
        if place is None:
            raise absent.refusal_of_key(named)
    return Point(place, at if at == history.LIVE else int(at))


@dataclass
class FolderMove:
    """Files that are the same in a folder of another name."""

    old_path: bytes
    path: bytes
    rows: list[history.FileChange]


class Lines(NamedTuple):
    """Lines added and removed, and files that differ. `are_all`: every text was counted; else there are more lines."""

    additions: int
    deletions: int
    files: int
    are_all: bool = True


def lines_of(rows) -> Lines:
    """Add up the counted lines of changes."""
    counted = [row for row in rows if row.additions is not None]
    added, removed = (sum(getattr(row, name) for row in counted) for name in ("additions", "deletions"))
    return Lines(added, removed, len(rows), len(counted) == len(rows))


class Restored(NamedTuple):
    """Paths that a restore changes, brings back and deletes; a file that moved is brought back and deleted."""

    changed: int
    created: int
    removed: int

    @classmethod
    def of(cls, rows) -> "Restored":
        """Add up the changes from the files before to those after it. What no snapshot holds stays as it is."""
        kinds = Counter(row.kind for row in rows if not _stays(row.change))
        created, removed = (kinds[kind] + kinds[RENAMED] for kind in (ADDED, REMOVED))
        return cls(kinds.total() - kinds[ADDED] - kinds[REMOVED] - kinds[RENAMED], created, removed)


def deleted(rows) -> list[bytes]:
    """Return the paths that `Restored` counts as removed."""
    gone = (row for row in rows if row.kind in (REMOVED, RENAMED) and not _stays(row.change))
    return [row.old_path or row.path for row in gone]


def _stays(change: Change) -> bool:
    """Return whether a restore leaves the path: the content of one side is not stored, or it cannot be made again."""
    old, new = change.old, change.new
    return (new is not None and not new.kept) or (old is not None and not old.kept and old.kind in (FILE, FOLDER))


class Changes:
    """What differs between two trees of a store. `owners`: also where only the owner differs."""

    def __init__(self, store: Store, trees: tuple[str, str], *, owners: bool = True):
        self.store, self.trees, self.owners = store, trees, owners

    @cached_property
    def _with_folders(self) -> list[history.FileChange]:
        return history.rows_of(self.store, self.trees, owners=self.owners, all_folders=True)

    @cached_property
    def rows(self) -> list[history.FileChange]:
        """All changes, without counted lines."""
        return [row for row in self._with_folders if not row.is_implied]

    @cached_property
    def gone_folders(self) -> frozenset[bytes]:
        """The folders that are gone with all that was in them, without those inside another one of them."""
        gone = {row.path for row in self._with_folders if row.is_implied and row.kind == REMOVED}
        return frozenset(path for path in gone if path.rpartition(b"/")[0] not in gone)

    @cached_property
    def gits_own(self) -> list[history.FileChange]:
        return [row for row in self.rows if row.is_gits_own]

    @cached_property
    def left_out(self) -> frozenset[bytes]:
        """Paths that git ignores or that a tool builds; a renamed file only if both its names are such."""
        rows = [row for row in self.rows if not row.is_gits_own]
        paths = sorted({name for row in rows for name in (row.path, row.old_path) if name})
        found = ignored.ignored(self.store, self.trees, paths) if paths else frozenset()
        return frozenset(row.path for row in rows if found.issuperset(filter(None, (row.path, row.old_path))))

    def written(self, *, with_ignored: bool = False) -> list[history.FileChange]:
        """Return the changes outside `.git`, and as a rule without what is ignored."""
        without = frozenset() if with_ignored else self.left_out
        return [row for row in self.rows if not row.is_gits_own and row.path not in without]

    def patch(self, *, with_ignored: bool = False) -> Iterator[bytes]:
        """Yield a patch for `git apply`, as a rule without what is ignored. It names what is not for its reader."""
        without = frozenset() if with_ignored else self.left_out
        is_hidden = guarded.hidden_from_reader(self.store, *self.trees)
        hidden = {row.path for row in self.rows if any(map(is_hidden, filter(None, (row.path, row.old_path))))}
        for path in sorted(hidden):
            yield b"Left out: %s " % path.replace(b"\n", b"?") + guarded.WORDS.encode() + b".\n"
        form = committed.form_of(self.store, *self.trees)
        shown = {"without": without | hidden, "owners": self.owners}
        also = [path for path in form.renewed({row.path for row in self.rows}) if not is_hidden(path)]
        yield from text.patch(self.store, *self.trees, **shown, form=form, also=also)

    def restorable(self, row: history.FileChange) -> tuple[bool, bool]:
        """Return whether the path can be made again what it is at the old and at the new tree."""
        return self._can_put_back(row, 0), self._can_put_back(row, 1)

    def _can_put_back(self, row: history.FileChange, which: int) -> bool:
        sides = (row.change.old, row.change.new)
        if any(side is not None and not side.kept and side.kind in (FILE, FOLDER) for side in sides):
            return False  # a file whose content is not stored is never overwritten
        side = sides[which]
        return side is None or (side.kept and not any(_is_inside(row.path, path) for path in self._gone_folders[which]))

    @cached_property
    def _gone_folders(self) -> tuple[list[bytes], list[bytes]]:
        """Paths that are a folder at one tree, and something else at the other: nothing can be put back into those."""
        types = [row for row in self.rows if row.kind == TYPE]
        old, new = ([row.path for row in types if (row.change.old, row.change.new)[at].kind == FOLDER] for at in (0, 1))
        return old, new

    def count(self, rows, seconds: float = COUNT_SECONDS) -> bool:
        """Count the changed lines of the rows as far as the time allows; return whether all were looked at."""
        return history.count_rows(self.store, rows, seconds, first=COUNTED)


class Comparison(Changes):
    """The changes from one point to another. `trees` are the store's ids of the files at both."""

    def __init__(self, old: Point, new: Point, trees: tuple[str, str]):
        # Each workspace has a user of its own, so every file of a fork has another owner than in its parent.
        super().__init__(history.store_of(new.workspace), trees, owners=old.workspace == new.workspace)
        self.old, self.new = old, new

    def row_of(self, path: bytes, old_path: bytes = b"") -> history.FileChange:
        """Return the change of one path without a look at the others. Problem 404 if the path is at neither point."""
        names = old_path or path, path
        sides = [_entry(self.store, tree, name) for tree, name in zip(self.trees, names, strict=True)]
        old, new = sides
        if old is None and new is None:
            raise not_found("file")
        if old_path and old_path != path and old is not None and new is not None:
            kind = RENAMED
        elif old is None or new is None:
            kind = ADDED if old is None else REMOVED
        elif old.kind != new.kind:
            kind = TYPE
        else:
            kind = MODE if (old.content, old.flags, old.target) == (new.content, new.flags, new.target) else MODIFIED
        change = Change(path, kind, old, new, old_path if kind == RENAMED else None)
        return history.FileChange(
            path,
            kind,
            change.old_path,
            change.old_mode,
            change.new_mode,
            change=change,
            trees=self.trees,
            owners=self.owners,
        )


def compare(old: Point, new: Point) -> Comparison:
    """Compare two points of one team. Raises Problem if one of them cannot be read."""
    return Comparison(old, new, (old.tree, new.tree))


def _is_inside(path: bytes, folder: bytes) -> bool:
    return path.startswith(folder + b"/")


def _entry(store, tree: str, path: bytes):
    try:
        return store.entry(tree, path)
    except (StoreError, BadPath):
        return None


def without_moves(rows) -> tuple[list[history.FileChange], list[FolderMove]]:
    """Split off the files that moved with their folder and are the same in it: (the other changes, the folders)."""
    groups = defaultdict(list)
    for row in rows:
        if row.kind == RENAMED and not row.facts and (pair := _folders(row.old_path, row.path)):
            groups[pair].append(row)
    moves = [FolderMove(*pair, found) for pair, found in groups.items() if len(found) >= LEAST_MOVED]
    moved = {row.path for move in moves for row in move.rows}
    return [row for row in rows if row.path not in moved], sorted(moves, key=lambda move: move.path)


def _folders(old: bytes, new: bytes) -> tuple[bytes, bytes] | None:
    """Return the two folders below which both paths are the same; None if their last names differ."""
    before, after = old.split(b"/"), new.split(b"/")
    same = 0
    while same < min(len(before), len(after)) and before[-1 - same] == after[-1 - same]:
        same += 1
    return (b"/".join(before[:-same]), b"/".join(after[:-same])) if same else None


def digest_of(row: history.FileChange) -> str:
    """Return a digest of a path and of both sides of its change; it is another one as soon as either changes."""
    sides = (row.change.old, row.change.new)
    told = [(side.kind, side.flags, side.mode, side.content, side.target) if side else None for side in sides]
    told += [sorted(side.xattrs.items()) for side in sides if side and side.xattrs]
    return hashlib.sha256(repr((row.path, row.old_path, told)).encode()).hexdigest()
