"""The versions of one file over the snapshots of a workspace, and the version that each of its lines comes from.

A version is a point (a snapshot, or now) at which the file differs from the point before it. A file that was moved
without a change is followed under its old path.
"""

from dataclasses import dataclass, replace

from dashboard.problems import Problem, not_found
from workspaces.changes.history import LIVE, store_of, tree_at
from workspaces.models import Snapshot
from workspaces.store import Change, Entry, Store, StoreError
from workspaces.store import text as store_text
from workspaces.store.diff import ADDED, MODE, MODIFIED, REMOVED, RENAMED
from workspaces.store.lines import split_lines
from workspaces.store.objects import FILE, FOLDER

MAX_POINTS = 2000  # snapshots that are looked at, the newest
MAX_VERSIONS = 100  # versions that are told apart; older changes count as part of the oldest one
MAX_BYTES = 1 << 20  # of a file whose lines are traced


@dataclass(frozen=True)
class Version:
    """A file at a point where it differs from the point before. `kind`: added, modified, removed, renamed, mode.

    `snapshot` is None for now; `before` is None if there is no older point. `entry` is None where it does not exist.
    `cut`: there are older versions, which are not told apart from this one. The lines are None if they are not counted.
    """

    snapshot: Snapshot | None
    before: Snapshot | None
    kind: str
    path: bytes
    old_path: bytes
    old: Entry | None
    entry: Entry | None
    tree: str
    additions: int | None = 0
    deletions: int | None = 0
    cut: bool = False


@dataclass(frozen=True)
class Point:
    """A snapshot, or now (None), and its tree."""

    snapshot: Snapshot | None
    tree: str


def versions_of(workspace, path: bytes, at=LIVE) -> list[Version]:
    """Return the versions of a file up to a point, newest first. Problem 404 if no point has the file."""
    points = _points(workspace, at)
    store, found = store_of(workspace), []
    for newer, older in zip(points, [*points[1:], None], strict=True):
        version = _version(store, path, newer, older, cut=older is None and len(points) > MAX_POINTS)
        if version is None:
            continue
        found.append(version)
        path = version.old_path
        if len(found) == MAX_VERSIONS and older is not None:
            found[-1] = replace(version, cut=True)
            break
    if not found:
        raise _none(store, points, path)
    return found


def _none(store: Store, points: list["Point"], path: bytes) -> Problem:
    if any(_at(store, point.tree, path) is not None for point in points):
        return Problem(409, "This is a folder; only a file has versions.")
    return not_found("file in this workspace's snapshots")


def _points(workspace, at) -> list[Point]:
    """Return up to MAX_POINTS points and one more, newest first, without those that have the tree of the one before."""
    rows = Snapshot.objects.filter(workspace=workspace).order_by("-number")
    rows = rows if at == LIVE else rows.filter(number__lte=at)
    points = [Point(None, tree_at(workspace, LIVE))] if at == LIVE else []
    points += [Point(row, row.tree_hex) for row in rows[: MAX_POINTS + 1]]
    if not points:
        raise not_found("snapshot")
    # The oldest point with a tree stands for all of them: it was so from then on.
    return [point for point, older in zip(points, [*points[1:], None], strict=True) if not _same(point, older)]


def _same(point: Point, older: Point | None) -> bool:
    return older is not None and point.tree == older.tree


def _version(store: Store, path: bytes, newer: Point, older: Point | None, *, cut: bool) -> Version | None:
    """Return the version at `newer`, or None if the file is the same at `older`."""
    entry = _entry(store, newer.tree, path)
    old = _entry(store, older.tree, path) if older else None
    old_path = path
    if _identity(entry) == _identity(old):
        return None
    if old is None and entry is not None and older is not None:
        old_path = _moved_from(store, older.tree, newer.tree, path) or path
        old = _entry(store, older.tree, old_path)
    kind = _kind(old, entry, old_path != path)
    text = store_text.diff_of_change(store, Change(path, kind, old, entry, old_path), hunks=False)
    return Version(
        snapshot=newer.snapshot,
        before=older.snapshot if older else None,
        kind=kind,
        path=path,
        old_path=old_path,
        old=old,
        entry=entry,
        tree=newer.tree,
        additions=None if text.too_large else text.additions,
        deletions=None if text.too_large else text.deletions,
        cut=cut,
    )


def _entry(store: Store, tree: str, path: bytes) -> Entry | None:
    """Return the file at a path. A folder is none: a file that became a folder was removed there."""
    entry = _at(store, tree, path)
    return None if entry is not None and entry.kind == FOLDER else entry


def _at(store: Store, tree: str, path: bytes) -> Entry | None:
    try:
        return store.entry(tree, path)
    except StoreError:
        return None


def _identity(entry: Entry | None):
    return entry and (entry.kind, entry.mode, entry.content, entry.target, entry.xattrs)


def _kind(old: Entry | None, new: Entry | None, moved: bool) -> str:
    if old is None or new is None:
        return ADDED if old is None else REMOVED
    if moved:
        return RENAMED
    return MODE if (old.kind, old.content, old.target) == (new.kind, new.content, new.target) else MODIFIED


def _moved_from(store: Store, old: str, new: str, path: bytes) -> bytes | None:
    moved = (change for change in store.diff(old, new) if change.kind == RENAMED and change.path == path)
    return next((change.old_path for change in moved), None)


@dataclass(frozen=True)
class Traced:
    """Consecutive lines of a file that come from one version; `first` is the number of the first one, from 1.

    `step` is the part of the version that they come from, as `steps_of` named it; None if that is not known.
    """

    version: Version
    step: object
    first: int
    lines: list[bytes]


def traced_lines(workspace, versions: list[Version], steps_of=None) -> list[Traced]:
    """Return the lines of the newest of these versions, in runs that come from one version.

    `steps_of(version, old, new)` may tell a version's changes apart: it returns [(step, content after it)] in order.
    Problem 409 for a file that is gone, no regular file, not text, or larger than MAX_BYTES.
    """
    newest = versions[0]
    if newest.entry is None:
        raise Problem(409, "The file does not exist at this point.")
    if newest.entry.kind != FILE:
        raise Problem(409, "This isn't a regular file.")
    store = store_of(workspace)
    last = _content(store, newest)
    if len(last) > MAX_BYTES or store_text.is_binary(last):
        raise Problem(409, "The lines of this file can't be traced: it is not text, or larger than 1 MB.")
    before, owners = b"", []
    for version in reversed(versions):
        content = _content(store, version)
        for step, after in [*(steps_of(version, before, content) if steps_of else ()), (None, content)]:
            owners = _owners(owners, before, after, (version, step))
            before = after
    return _runs(owners, split_lines(last))


def _content(store: Store, version: Version) -> bytes:
    entry = version.entry
    readable = entry is not None and entry.kind == FILE and entry.kept and entry.size <= store_text.MAX_BYTES
    return store.read(version.tree, version.path) if readable else b""


def _owners(owners: list, old: bytes, new: bytes, owner) -> list:
    """Return the owner of each line of `new`, given those of the lines of `old`; `owner` has those that changed."""
    diff = store_text.text_diff(old, new, context=0)
    if diff.binary or diff.too_large:
        return [owner] * len(split_lines(new))
    result, at = [], 0
    for hunk in diff.hunks:
        start = hunk.old_start - 1 if hunk.old_lines else hunk.old_start  # an insertion names the line before it
        result += owners[at:start] + [owner] * hunk.new_lines
        at = start + hunk.old_lines
    return result + owners[at:]


def _runs(owners: list, lines: list[bytes]) -> list[Traced]:
    runs, start = [], 0
    for at in range(1, len(lines) + 1):
        if at == len(lines) or owners[at] is not owners[start]:
            runs.append(Traced(*owners[start], start + 1, lines[start:at]))
            start = at
    return runs
