"""Read the files of a workspace at a point in time, and the changes between two points.

A point is the number of a snapshot, or "live": the tree as it is now, which the runner writes to the store without a
Snapshot row, so that each comparison is between two trees. Reading a snapshot needs no runner.
"""

import base64
import json
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial

from django.core.cache import cache

from dashboard.door.entering import is_agent
from dashboard.problems import Problem, conflict, invalid, not_found, unavailable
from workspaces.changes import guarded, stores
from workspaces.models import Snapshot, Workspace
from workspaces.operations import runner_client
from workspaces.store import Change, Entry, Store, StoreError
from workspaces.store import text as store_text
from workspaces.store.diff import with_implied
from workspaces.store.facts import Fact, attributes, facts
from workspaces.store.objects import FILE, FOLDER

LIVE = "live"
FIRST_S, LAST_S = -62135510400.0, 253402214400.0  # a day within the years 1 and 9999, for any time zone
GIT_SECONDS = 3.0


def find_snapshot(workspace, number) -> Snapshot:
    """Return the snapshot with this number. Problem 404 if there is none."""
    try:
        return Snapshot.objects.select_related("workspace").get(workspace=workspace, number=int(number))
    except (Snapshot.DoesNotExist, ValueError, OverflowError):
        raise not_found("snapshot") from None


def store_of(workspace) -> Store:
    """Open the team's store for reading. Problem 409 if there is none yet, 503 if it is missing or the wrong one."""
    try:
        return stores.opened(workspace.team_id)
    except stores.WrongStore as error:
        raise unavailable(f"Snapshots cannot be read: {error}.") from None
    except StoreError as error:
        raise conflict(f"There is no snapshot to look at yet: {error}.") from None


def tree_at(workspace, at) -> str:
    """Return the tree id of a snapshot number or "live"."""
    if at == LIVE:
        return runner_client.ask("POST", workspace, "tree")["tree"]
    return find_snapshot(workspace, at).tree_hex


@dataclass
class FileChange:
    """A path that differs between two points; `kind`: added, removed, modified, renamed, mode, type."""

    path: bytes
    kind: str
    old_path: bytes | None
    old_mode: int | None
    new_mode: int | None
    binary: bool = False
    too_large: bool = False  # text that is too large to compare line by line
    additions: int | None = None  # None: not counted, or too large for it
    deletions: int | None = None
    change: Change = field(default=None, repr=False)
    trees: tuple[str, str] = field(default=("", ""), repr=False)
    owners: bool = True  # whether a change of the owner counts
    is_implied: bool = False  # a folder that came or went with what is in it, which has rows of its own

    @property
    def facts(self) -> list[Fact]:
        """What changed besides the lines."""
        return facts(self.change, owners=self.owners)

    @property
    def is_gits_own(self) -> bool:
        """True inside a `.git` folder; listed after the files that people and agents wrote."""
        return store_text.inside_git(self.path)

    def as_json(self) -> dict:
        told = {
            **path_fields("path", self.path),
            "kind": self.kind,
            "old_mode": f"{self.old_mode:06o}" if self.old_mode is not None else None,
            "new_mode": f"{self.new_mode:06o}" if self.new_mode is not None else None,
            "binary": self.binary,
            "too_large": self.too_large,
            "additions": self.additions,
            "deletions": self.deletions,
            "old_type": self.change.old.type if self.change.old else None,
            "new_type": self.change.new.type if self.change.new else None,
            "attributes": attributes(self.change),
            "implied": self.is_implied,
            "facts": [str(fact) for fact in self.facts],
        }
        return told | path_fields("old_path", self.old_path) if self.old_path is not None else told


def path_fields(name: str, path: bytes) -> dict:
    """Return {name: text}, and also {name_b64: base64} when the path is not UTF-8."""
    try:
        return {name: path.decode("utf-8")}
    except UnicodeDecodeError:
        return {name: path.decode("utf-8", "backslashreplace"), f"{name}_b64": base64.b64encode(path).decode()}


MAX_SHOWN = store_text.MAX_BYTES  # of either side of a diff; a larger file is not read for it
COUNT_SECONDS = 20.0  # for counting the lines of one comparison; those of what is left then are unknown
COUNTS_KEPT_SECONDS = 3600


def changes(workspace, from_, to, *, count=True) -> list[FileChange]:
    """Return the changes from the tree at `from_` to the one at `to`, as `changes_of_trees` does."""
    return changes_of_trees(workspace, tree_at(workspace, from_), tree_at(workspace, to), count=count)


def changes_of_trees(workspace, old: str, new: str, *, count=True, owners=True) -> list[FileChange]:
    """Return the changes between two trees of the store, given by id, as `rows_of` does.

    `count`: count the changed lines as well, as far as COUNT_SECONDS allow.
    """
    store = store_of(workspace)
    found = rows_of(store, (old, new), owners=owners)
    if count:
        count_rows(store, found, COUNT_SECONDS)
    return found


def rows_of(store: Store, trees: tuple[str, str], *, owners=True, all_folders=False) -> list[FileChange]:
    """Return the changes between two trees that a review names, by path; those inside a `.git` come last.

    `owners`: also name entries of which only the owner changed; `all_folders`: also folders that are implied by what
    is in them, marked as such.
    """
    found = [
        FileChange(
            change.path,
            change.kind,
            change.old_path,
            change.old_mode,
            change.new_mode,
            change=change,
            trees=trees,
            owners=owners,
            is_implied=is_implied,
        )
        for change, is_implied in with_implied(store.diff(*trees), owners=owners)
        if all_folders or not is_implied
    ]
    return sorted(found, key=lambda row: row.is_gits_own)


def count_rows(store: Store, rows, seconds: float, *, first: int = 0) -> bool:
    """Count the changed lines of the rows, of the `first` in any case, of the others as far as the time allows.

    What is counted is cached for the trees of the rows. Return whether every row was looked at.
    """
    until = time.monotonic() + seconds
    by_trees = defaultdict(list)
    for number, row in enumerate(rows):
        by_trees[row.trees].append((number < first, row))
    left = [trees for trees, some in by_trees.items() if not _count_some(store, trees, some, until)]
    return not left


def _count_some(store: Store, trees: tuple[str, str], rows: list[tuple[bool, FileChange]], until: float) -> bool:
    key = f"counted-lines:{store.id}:{trees[0]}:{trees[1]}"
    known, is_new, are_all = cache.get(key) or {}, False, True
    for must, row in rows:
        name = row.path, row.old_path
        if name not in known:
            if not must and time.monotonic() > until:
                are_all = False
                continue
            count_lines(store, row)
            known[name], is_new = (row.additions, row.deletions, row.binary, row.too_large), True
        row.additions, row.deletions, row.binary, row.too_large = known[name]
    if is_new:
        cache.set(key, known, COUNTS_KEPT_SECONDS)
    return are_all


def count_lines(store, row):
    text = store_text.diff_of_change(store, row.change, hunks=False)
    row.binary, row.too_large = text.binary, text.too_large
    row.additions, row.deletions = (None, None) if text.too_large else (text.additions, text.deletions)


def _content(store, tree, path, entry) -> bytes | None:
    if entry is None or entry.kind != FILE or not entry.kept:
        return entry.target if entry is not None and entry.type == "symlink" else None
    return store.read(tree, path)


def contents(workspace, rows) -> Iterator[tuple[FileChange, bytes | None, bytes | None]]:
    """Yield each row of `changes` with its old and new content at that time; None if there was no file.

    For a file too large to compare line by line, both are empty and the row's `too_large` is set.
    """
    store = store_of(workspace)
    for row in rows:
        if any(side is not None and side.size > MAX_SHOWN for side in (row.change.old, row.change.new)):
            count_lines(store, row)
            yield row, b"", b""
            continue
        old, new = row.trees
        before = _content(store, old, row.change.old_path or row.path, row.change.old)
        yield row, before, _content(store, new, row.path, row.change.new)


@dataclass(frozen=True)
class Item:
    """An entry of a folder, live or in a snapshot. `type`: file, folder, symlink, fifo, socket, device."""

    name: bytes
    type: str
    size: int
    mode: int
    mtime: float
    target: bytes = b""  # of a symlink

    def as_json(self) -> dict:
        seconds = min(max(self.mtime, FIRST_S), LAST_S)  # a file system may hold years that ISO 8601 does not
        modified = datetime.fromtimestamp(seconds).astimezone().isoformat(timespec="milliseconds")
        told = {
            **path_fields("name", self.name),
            "type": self.type,
            "size": self.size,
            "mode": f"{self.mode:04o}",
            "modified_at": modified,
        }
        return told | path_fields("target", self.target) if self.type == "symlink" else told


def listing(workspace: Workspace, at, path: bytes) -> list[Item] | None:
    """Return the entries of a folder; None if the path is not a folder. Problem 404 if it does not exist."""
    guarded.refuse_secret(path)
    if at == LIVE:
        found = runner_client.ask("GET", workspace, "listing", path=as_base64(path))["entries"]
        if found is None:
            return None
        return [_live_item(entry) for entry in found]
    store, tree = store_of(workspace), tree_at(workspace, at)
    if _entry(store, tree, path).kind != FOLDER:
        return None
    return [item_of(entry) for entry in store.ls(tree, path)]


def item_of(entry: Entry) -> Item:
    target = entry.target if entry.type == "symlink" else b""
    return Item(entry.name, entry.type, entry.size, entry.mode, entry.mtime_ns / 1e9, target)


def _live_item(entry: dict) -> Item:
    name, target = base64.b64decode(entry["name_b64"]), base64.b64decode(entry["target_b64"])
    return Item(name, entry["type"], entry["size"], entry["mode"], entry["mtime"], target)


def _entry(store, tree, path: bytes) -> Entry:
    if path.startswith(b"/") or b".." in path.split(b"/") or b"\0" in path:
        raise invalid("That path isn't inside the workspace.")
    try:
        return store.root(tree) if not path else store.entry(tree, path)
    except StoreError:
        raise not_found("file in this snapshot") from None


def read_file(workspace: Workspace, at, path: bytes, limit: int, *, timeout: float = 120) -> bytes:
    """Return a file's bytes. Problem 409 unless it is a regular file, 413 if it exceeds `limit` bytes.

    `timeout` is in seconds and applies to the live tree.
    """
    _refuse_secret(workspace, at, path)
    if at == LIVE:
        return _up_to(limit, runner_client.pieces(workspace, "file", path=as_base64(path), timeout=timeout))
    store, tree = store_of(workspace), tree_at(workspace, at)
    entry = _regular_file(store, tree, path)
    if entry.size > limit:
        raise Problem(413, f"The file has {entry.size:,} bytes; {limit:,} is the limit.")
    return store.read(tree, path)


def _refuse_secret(workspace, at, path: bytes):
    """Problem 403 (code secret_path) if an agent asks for a file that is secret, by this name or by another link."""
    guarded.refuse_secret(path)
    if is_agent() and (at != LIVE or _live_size(workspace, path)["links"] > 1):
        guarded.refuse_linked(store_of(workspace), tree_at(workspace, at), path)


def _live_size(workspace, path: bytes) -> dict:
    """Return {size, links} of a live file. Problem unless it is a regular file."""
    return runner_client.ask("GET", workspace, "file/size", path=as_base64(path))


def _regular_file(store, tree, path: bytes) -> Entry:
    entry = _entry(store, tree, path)
    if entry.kind == FOLDER:
        raise conflict("This is a folder.")
    if entry.kind != FILE:
        raise conflict("This isn't a regular file.")
    return entry


@dataclass(frozen=True)
class Glimpse:
    """A file to display: all of it as `head`, or its first and last bytes."""

    size: int
    head: bytes
    tail: bytes

    @property
    def is_whole(self) -> bool:
        return len(self.head) == self.size


def glimpse(workspace: Workspace, at, path: bytes, *, whole: int, head: int, tail: int) -> Glimpse:
    """Read a file of up to `whole` bytes entirely, and of a larger one the first `head` and last `tail` bytes."""
    _refuse_secret(workspace, at, path)
    if at == LIVE:
        size = _live_size(workspace, path)["size"]
        read = partial(_live_part, workspace, as_base64(path))
    else:
        store, tree = store_of(workspace), tree_at(workspace, at)
        size = _regular_file(store, tree, path).size
        read = partial(store.read, tree, path)
    if size <= whole:
        found = read(0, whole)
        return Glimpse(len(found), found, b"")  # a live file may have grown or shrunk since
    return Glimpse(size, read(0, head), read(size - tail, tail))


def _live_part(workspace: Workspace, path: str, offset: int, length: int) -> bytes:
    return runner_client.call("GET", workspace, "file", path=path, offset=offset, length=length)


def stream_file(workspace: Workspace, at, path: bytes) -> Iterator[bytes]:
    """Return an iterator over the bytes of a file of any size. Problems are raised now, before the first piece."""
    _refuse_secret(workspace, at, path)
    if at == LIVE:
        return runner_client.pieces(workspace, "file", path=as_base64(path))
    store, tree = store_of(workspace), tree_at(workspace, at)
    _regular_file(store, tree, path)
    return store.stream(tree, path)


def _up_to(limit: int, pieces) -> bytes:
    data = bytearray()
    for piece in pieces:
        data += piece
        if len(data) > limit:
            raise Problem(413, f"The file has more than {limit:,} bytes; that is the limit.")
    return bytes(data)


def commits_since(workspace: Workspace, snapshot: Snapshot) -> tuple[list[tuple[str, str]], str]:
    """Return ([(short sha, subject)] of the commits on HEAD since the snapshot, ""), or ([], why git cannot tell)."""
    git = snapshot.manifest.body.get("git") if hasattr(snapshot, "manifest") else None
    if not git or not git.get("sha"):
        return [], ""
    question = json.dumps({"folder": "", "base": git["sha"]}).encode()
    try:
        told = runner_client.ask("POST", workspace, "git-since", body=question, timeout=GIT_SECONDS)
    except Problem as problem:
        return [], problem.detail
    if "error" in told:
        return [], told["error"]
    return [(commit["sha"][:10], commit["subject"]) for commit in told["commits"]], ""


def largest(workspace: Workspace) -> list[tuple[bytes, int]]:
    """Return (path, bytes on disk) of the largest entries of the live tree, two levels deep, largest first."""
    found = runner_client.ask("GET", workspace, "largest")["largest"]
    return [(base64.b64decode(entry["path_b64"]), entry["bytes"]) for entry in found]


def as_base64(path: bytes) -> str:
    return base64.urlsafe_b64encode(path).decode()
