"""Compare two trees, reading only folders whose ids differ. Renames are detected by equal content."""

import os
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from .objects import FILE, FOLDER, LINK, SYMLINK, Entry, Folder

ADDED, REMOVED, MODIFIED, RENAMED, MODE, TYPE = "added", "removed", "modified", "renamed", "mode", "type"
SPECIAL_BITS = 0o7000  # setuid, setgid, sticky
ReadFolder = Callable[[bytes], Folder]


class Change(NamedTuple):
    """One changed path. `old` and `new` are the entries of both trees, None where the path does not exist.

    kind: added, removed, modified (content), renamed (same content at another path), mode (only permissions, owner or
    extended attributes), type (another kind of entry).
    """

    path: bytes
    kind: str
    old: Entry | None
    new: Entry | None
    old_path: bytes | None = None

    @property
    def old_mode(self) -> int | None:
        return None if self.old is None else full_mode(self.old)

    @property
    def new_mode(self) -> int | None:
        return None if self.new is None else full_mode(self.new)


TYPE_BITS = {FILE: 0o100000, FOLDER: 0o040000, SYMLINK: 0o120000, 4: 0o010000, 5: 0o140000, 6: 0o020000, 7: 0o060000}


def full_mode(entry: Entry) -> int:
    """Return an entry's st_mode: type and permission bits."""
    return TYPE_BITS.get(entry.kind, 0) | entry.mode


def pairs(read: ReadFolder, a: bytes, b: bytes) -> Iterator[tuple[bytes, Entry | None, Entry | None]]:
    """Yield (path, old, new) for each entry that differs between folders a and b, parents first.

    A folder is yielded when anything in it differs. The contents of an added or removed folder are not yielded.
    """
    stack = [(b"", a, b)]
    while stack:
        prefix, left, right = stack.pop()
        old = {entry.name: entry for entry in read(left)}
        new = {entry.name: entry for entry in read(right)}
        for name in sorted(old.keys() | new.keys()):
            before, after = old.get(name), new.get(name)
            if before == after or _ignored_or_missing(before, after):
                continue
            path = prefix + name
            yield path, before, after
            if before and after and _open(before) and _open(after) and before.content != after.content:
                stack.append((path + b"/", before.content, after.content))


def _ignored_or_missing(*entries: Entry | None) -> bool:
    return all(entry is None or entry.is_ignored for entry in entries)


def below(read: ReadFolder, path: bytes, entry: Entry) -> Iterator[tuple[bytes, Entry]]:
    """Yield (path, entry) of an entry and all its descendants, parents first."""
    stack = [(path, entry)]
    while stack:
        at, found = stack.pop()
        yield at, found
        if _open(found):
            stack.extend((at + b"/" + inner.name, inner) for inner in reversed(list(read(found.content))))


def _open(entry: Entry) -> bool:
    return entry.kind == FOLDER and entry.kept


def changes(read: ReadFolder, a: bytes, b: bytes) -> Iterator[Change]:
    """Yield the changes between two folders in byte order of their paths."""
    found: list[Change] = []
    removed: dict[bytes, list[Change]] = {}
    added: list[Change] = []
    for path, old, new in pairs(read, a, b):
        if old and new and old.kind == new.kind:
            if change := _same_kind(path, old, new):
                found.append(change)
        elif old and new:
            found.append(Change(path, TYPE, old, new))
            found.extend(Change(at, REMOVED, gone, None) for at, gone in _inside(read, path, old))
            added.extend(Change(at, ADDED, None, come) for at, come in _inside(read, path, new))
        elif old:
            for at, gone in _reviewed(read, path, old):
                removed.setdefault(_identity(gone), []).append(Change(at, REMOVED, gone, None))
        else:
            added.extend(Change(at, ADDED, None, come) for at, come in _reviewed(read, path, new))
    found.extend(_match_renames(removed, added))
    found.sort(key=lambda change: change.path)
    return iter(found)


def _reviewed(read: ReadFolder, path: bytes, entry: Entry) -> Iterator[tuple[bytes, Entry]]:
    return (pair for pair in below(read, path, entry) if not pair[1].is_ignored)


def _inside(read: ReadFolder, path: bytes, entry: Entry) -> Iterator[tuple[bytes, Entry]]:
    return (pair for pair in _reviewed(read, path, entry) if pair[0] != path)


def _same_kind(path: bytes, old: Entry, new: Entry) -> Change | None:
    if old.kind != FOLDER and (old.content, old.flags) != (new.content, new.flags):
        return Change(path, MODIFIED, old, new)
    if (old.mode, old.uid, old.gid, old.flags, _attributes(old)) != (
        new.mode, new.uid, new.gid, new.flags, _attributes(new)
    ):  # fmt: skip
        return Change(path, MODE, old, new)
    return None  # only times or the id of a hard-link group differ: not a change to review


def reviewed(found: Iterable[Change], *, owners: bool = True) -> list[Change]:
    """Return the changes that a review names, in their order. Every list of changed paths is made from these.

    A folder that came or went is named by what is in it, unless it is empty or has attributes of its own. Without
    `owners`, an entry of which only the owner changed is left out.
    """
    return [change for change, is_implied in with_implied(found, owners=owners) if not is_implied]


def with_implied(found: Iterable[Change], *, owners: bool = True) -> list[tuple[Change, bool]]:
    """Return the changes and of each whether it is implied by others: see `reviewed`."""
    named = [change for change in found if owners or not is_of_owner_alone(change)]
    paths = [path for change in named for path in (change.path, change.old_path) if path]
    parents = {path[:at] for path in paths for at, byte in enumerate(path) if byte == ord("/")}
    return [(change, change.path in parents and _is_plain_folder(change)) for change in named]


def is_of_owner_alone(change: Change) -> bool:
    """Return True for an entry of which only the owner changed, and the times."""
    old, new = change.old, change.new
    return change.kind == MODE and (old.mode, old.flags, _attributes(old)) == (new.mode, new.flags, _attributes(new))


def _is_plain_folder(change: Change) -> bool:
    side = change.new or change.old
    if change.kind not in (ADDED, REMOVED) or side.kind != FOLDER:
        return False
    return side.kept and not side.mode & SPECIAL_BITS and not _attributes(side)


def _attributes(entry: Entry) -> dict:
    return {tag: value for tag, value in entry.extras.items() if tag != LINK}


def _identity(entry: Entry) -> bytes:
    return bytes([entry.kind]) + (entry.content if entry.kind in (FILE, SYMLINK) and entry.size else b"")


def _match_renames(removed: dict[bytes, list[Change]], added: list[Change]) -> Iterator[Change]:
    """Pair added with removed entries of equal content, same basename first; not for folders and empty files."""
    for by_name in (True, False):
        rest = []
        for come in added:
            gone = _take(removed.get(_identity(come.new), ()), come) if by_name else _take_any(removed, come)
            if gone:
                yield Change(come.path, RENAMED, gone.old, come.new, gone.path)
            else:
                rest.append(come)
        added = rest
    yield from added
    for gone in removed.values():
        yield from gone


def _can_move(entry: Entry) -> bool:
    return entry.kind in (FILE, SYMLINK) and entry.size > 0 and entry.kept


def _take(candidates, come: Change) -> Change | None:
    if not _can_move(come.new):
        return None
    name = os.path.basename(come.path)
    for index, gone in enumerate(candidates):
        if os.path.basename(gone.path) == name:
            return candidates.pop(index)
    return None


def _take_any(removed: dict[bytes, list[Change]], come: Change) -> Change | None:
    candidates = removed.get(_identity(come.new)) if _can_move(come.new) else None
    return candidates.pop(0) if candidates else None
