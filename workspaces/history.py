"""What was in a workspace, and what changed: the database and the store together.

A point in time is the number of a snapshot, or "live": the tree as it is now, which the runner puts into the store
without a row, so that every comparison is one of two trees. Reading a snapshot needs no runner.
"""

import base64
import os
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from itertools import islice

from django.core.cache import cache

from dashboard.problems import Problem, conflict, invalid, not_found
from workspaces import places
from workspaces.models import Snapshot, Workspace
from workspaces.runner import client
from workspaces.store import Change, Entry, Store, StoreError
from workspaces.store import text as store_text
from workspaces.store.objects import FILE, FOLDER

LIVE = "live"


def find_snapshot(workspace, number) -> Snapshot:
    try:
        return Snapshot.objects.select_related("workspace").get(workspace=workspace, number=int(number))
    except (Snapshot.DoesNotExist, ValueError, OverflowError):
        raise not_found("snapshot") from None


def store_of(workspace) -> Store:
    """The team's store, for reading. Problem 409 while there is none."""
    try:
        return Store.open(places.store_of(workspace.team_id))
    except StoreError as error:
        raise conflict(f"There is no snapshot to look at yet: {error}.") from None


def tree_at(workspace, at) -> str:
    """The tree id at a snapshot number or "live"."""
    if at == LIVE:
        return client.ask("POST", f"/workspaces/{workspace.pk}/tree")["tree"]
    return find_snapshot(workspace, at).tree_hex


@dataclass
class FileChange:
    """One changed path between two points; `kind`: added, removed, modified, renamed, mode, type."""

    path: bytes
    kind: str
    old_path: bytes | None
    old_mode: int | None
    new_mode: int | None
    binary: bool = False
    additions: int = 0
    deletions: int = 0
    change: Change = field(default=None, repr=False)
    trees: tuple[str, str] = field(default=("", ""), repr=False)

    @property
    def is_gits_own(self) -> bool:
        """Inside a `.git`: bookkeeping that stands behind what people and agents wrote."""
        return store_text.inside_git(self.path)

    def as_json(self) -> dict:
        told = {
            **named("path", self.path),
            "kind": self.kind,
            "old_mode": f"{self.old_mode:06o}" if self.old_mode is not None else None,
            "new_mode": f"{self.new_mode:06o}" if self.new_mode is not None else None,
            "binary": self.binary,
            "additions": self.additions,
            "deletions": self.deletions,
        }
        return told | named("old_path", self.old_path) if self.old_path is not None else told


def named(name: str, path: bytes) -> dict:
    """{"path": text} and, where the name is not UTF-8, also {"path_b64"}."""
    try:
        return {name: path.decode("utf-8")}
    except UnicodeDecodeError:
        return {name: path.decode("utf-8", "backslashreplace"), f"{name}_b64": base64.b64encode(path).decode()}


COUNTED = 2000  # files whose lines are counted in one comparison; beyond, the numbers are left at 0


def changes(workspace, from_, to, *, count=True) -> list[FileChange]:
    """What turns the tree at `from_` into the one at `to`: by path, what is inside a `.git` last.

    Folders themselves are left out unless only they changed.
    """
    store = store_of(workspace)
    old, new = tree_at(workspace, from_), tree_at(workspace, to)
    found = [
        FileChange(
            change.path, change.kind, change.old_path, change.old_mode, change.new_mode, change=change, trees=(old, new)
        )
        for change in store.diff(old, new)
        if not _is_folder_noise(change)
    ]
    found.sort(key=lambda row: row.is_gits_own)
    for row in found[: COUNTED if count else 0]:
        _count_lines(store, row)
    return found


def counts(team_id, old: str, new: str) -> tuple[int, int] | None:
    """(lines added, lines removed) between two trees of a team's store, `.git` left out, kept once known.

    None where there is no such store or tree.
    """
    key = f"lines:{team_id}:{old}:{new}"
    if (known := cache.get(key)) is not None:
        return known
    try:
        store = Store.open(places.store_of(team_id))
        written = (change for change in store.diff(old, new) if not store_text.inside_git(change.path))
        texts = [store_text.diff_of_change(store, change) for change in islice(written, COUNTED)]
    except StoreError:
        return None
    found = sum(text.additions for text in texts), sum(text.deletions for text in texts)
    cache.set(key, found, 24 * 3600)
    return found


def _is_folder_noise(change: Change) -> bool:
    """A folder whose times alone moved says nothing that its files do not say."""
    old, new = change.old, change.new
    return (
        old is not None
        and new is not None
        and old.kind == new.kind == FOLDER
        and change.old_mode == change.new_mode
        and change.kind in ("modified", "mode")
    )


def _count_lines(store, row):
    text = store_text.diff_of_change(store, row.change)
    row.binary, row.additions, row.deletions = text.binary or text.too_large, text.additions, text.deletions


def _content(store, tree, path, entry) -> bytes | None:
    if entry is None or entry.kind != FILE:
        return entry.target if entry is not None and entry.type == "symlink" else None
    if entry.size > store_text.MAX_BYTES:
        return b"\0" * 16 + entry.content  # too large to compare line by line: shown like a binary file
    return store.read(tree, path)


def contents(workspace, rows) -> Iterator[tuple[FileChange, bytes | None, bytes | None]]:
    """Each of the rows that `changes` gave with both contents, as they were then; None: not a file there."""
    store = store_of(workspace)
    for row in rows:
        old, new = row.trees
        before = _content(store, old, row.change.old_path or row.path, row.change.old)
        yield row, before, _content(store, new, row.path, row.change.new)


def patch(workspace, from_, to) -> Iterator[bytes]:
    """A `git apply`-able patch of everything between two points."""
    store = store_of(workspace)
    return store_text.patch(store, tree_at(workspace, from_), tree_at(workspace, to))


@dataclass(frozen=True)
class Item:
    """One entry of a folder, live or of a snapshot. `type`: file, folder, symlink, fifo, socket, device."""

    name: bytes
    type: str
    size: int
    mode: int
    mtime: float

    def as_json(self) -> dict:
        modified = datetime.fromtimestamp(self.mtime).astimezone().isoformat(timespec="milliseconds")
        return {
            **named("name", self.name),
            "type": self.type,
            "size": self.size,
            "mode": f"{self.mode:04o}",
            "modified_at": modified,
        }


def listing(workspace: Workspace, at, path: bytes) -> list[Item] | None:
    """The entries of a folder; None when the path is something else. Problem 404 when it is not there."""
    if at == LIVE:
        found = client.ask("GET", f"/workspaces/{workspace.pk}/listing", path=_b64(path))["entries"]
        if found is None:
            return None
        return [Item(base64.b64decode(e["name_b64"]), e["type"], e["size"], e["mode"], e["mtime"]) for e in found]
    store, tree = store_of(workspace), tree_at(workspace, at)
    if _entry(store, tree, path).kind != FOLDER:
        return None
    return [_item(entry) for entry in store.ls(tree, path)]


def _item(entry: Entry) -> Item:
    return Item(entry.name, entry.type, entry.size, entry.mode, entry.mtime_ns / 1e9)


def _entry(store, tree, path: bytes) -> Entry:
    if path.startswith(b"/") or b".." in path.split(b"/") or b"\0" in path:
        raise invalid("That path is not one inside the workspace.")
    try:
        return store.root(tree) if not path else store.entry(tree, path)
    except StoreError:
        raise not_found("file in this snapshot") from None


def read_file(workspace: Workspace, at, path: bytes, limit: int, *, timeout: float = 120) -> bytes:
    """A file's bytes. Problem 409 for a folder, 413 beyond `limit`; `timeout` in seconds, for the live tree."""
    if at == LIVE:
        return _up_to(limit, client.pieces(f"/workspaces/{workspace.pk}/file", path=_b64(path), timeout=timeout))
    store, tree = store_of(workspace), tree_at(workspace, at)
    entry = _entry(store, tree, path)
    if entry.kind == FOLDER:
        raise conflict("This is a folder.")
    if entry.kind != FILE:
        raise conflict("This is not a regular file; it has no bytes to show.")
    if entry.size > limit:
        raise Problem(413, f"The file has {entry.size:,} bytes; {limit:,} is the limit here.")
    return store.read(tree, path)


def _up_to(limit: int, pieces) -> bytes:
    data = bytearray()
    for piece in pieces:
        data += piece
        if len(data) > limit:
            raise Problem(413, f"The file has more than {limit:,} bytes; that is the limit here.")
    return bytes(data)


def write_file(workspace: Workspace, path: bytes, data: bytes) -> bool:
    """Put a live file there as a whole; True when it is new."""
    return client.ask("PUT", f"/workspaces/{workspace.pk}/file", body=data, path=_b64(path))["created"]


def largest(workspace: Workspace) -> list[tuple[bytes, int]]:
    """(path, bytes on disk) of what is big in the live tree, to the second level, largest first."""
    found = client.ask("GET", f"/workspaces/{workspace.pk}/largest")["largest"]
    return [(base64.b64decode(entry["path_b64"]), entry["bytes"]) for entry in found]


def archive(snapshot: Snapshot) -> Iterator[bytes]:
    """The files of a snapshot as .tar.zst, in pieces. Problem now, when the store cannot be opened."""
    return _piped(partial(store_of(snapshot.workspace).archive, snapshot.tree_hex))


def _piped(write) -> Iterator[bytes]:
    """What `write(file)` writes; a reader that goes away ends the writer by a broken pipe."""
    reading, writing = os.pipe()

    def fill():
        with suppress(BrokenPipeError), os.fdopen(writing, "wb") as out:
            write(out)

    threading.Thread(target=fill, daemon=True).start()
    try:
        while chunk := os.read(reading, 256 * 1024):
            yield chunk
    finally:
        os.close(reading)


def read_bundle(workspace: Workspace) -> Iterator[bytes]:
    """The newest git bundle that was made of the workspace, in pieces."""
    return client.pieces(f"/workspaces/{workspace.pk}/bundle")


def delete_file(workspace: Workspace, path: bytes):
    client.ask("DELETE", f"/workspaces/{workspace.pk}/file", path=_b64(path))


def _b64(path: bytes) -> str:
    return base64.urlsafe_b64encode(path).decode()
