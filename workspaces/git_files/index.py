"""Parse a git index (versions 2 to 4), so that neither git nor the repository's configuration has to run."""

import struct
from typing import NamedTuple

_HEAD = struct.Struct(">4sII")
_ENTRIES = {20: struct.Struct(">10I20sH"), 32: struct.Struct(">10I32sH")}  # by the bytes of an object's name
ASSUME_VALID, EXTENDED, STAGE, NAME_LENGTH = 0x8000, 0x4000, 0x3000, 0x0FFF
SKIP_WORKTREE = 0x4000  # of the extended flags
DIRECTORY = 0o040000  # mode of a folder that a sparse index leaves out
GITLINK = 0o160000


class Unreadable(ValueError):
    """The index cannot be read; the message says why, for people."""


class Indexed(NamedTuple):
    """One path of the index."""

    mode: int
    size: int
    mtime_ns: int  # whole seconds if git was built without finer times
    sha: bytes
    is_conflict: bool
    is_skipped: bool  # sparse checkout, or marked as never changed


class Index(NamedTuple):
    entries: dict[bytes, Indexed]
    tree: bytes | None  # id of the tree that a commit would have, if the index has it cached


def parse(data: bytes, max_entries: int) -> Index:
    """Return the index. Raise Unreadable for one of another form or with more than `max_entries` entries."""
    try:
        signature, version, count = _HEAD.unpack_from(data)
        if signature != b"DIRC" or version not in (2, 3, 4):
            raise Unreadable("the index has a form that is not read here")
        if count > max_entries:
            raise Unreadable(f"the index has more than {max_entries:,} entries")
        entries, at, path = {}, _HEAD.size, b""
        name_bytes = _name_bytes(data, version)
        for _ in range(count):
            path, entry, at = _entry(data, at, version, path, _ENTRIES[name_bytes])
            entries[path] = entry
        return Index(entries, _cached_tree(data, at, name_bytes))
    except (struct.error, IndexError) as error:
        raise Unreadable("the index is cut short") from error


def _name_bytes(data: bytes, version: int) -> int:
    """Return 20, or 32 in a repository of SHA-256: the index does not say it, but where the first path is does."""
    for count, form in _ENTRIES.items():
        at = _HEAD.size + form.size
        if len(data) > at:
            flags = form.unpack_from(data, _HEAD.size)[-1]
            at += (2 if flags & EXTENDED else 0) + (version == 4)
            if data.find(b"\0", at) - at == flags & NAME_LENGTH:
                return count
    return 20


def _entry(data: bytes, at: int, version: int, before: bytes, form: struct.Struct) -> tuple[bytes, Indexed, int]:
    start = at
    _, _, seconds, nanoseconds, _, _, mode, _, _, size, sha, flags = form.unpack_from(data, at)
    at, more = at + form.size, 0
    if flags & EXTENDED:
        (more,) = struct.unpack_from(">H", data, at)
        at += 2
    if version == 4:
        cut, at = _offset(data, at)
        end = data.index(b"\0", at)
        path, at = before[: len(before) - cut] + data[at:end], end + 1
    else:
        end = data.index(b"\0", at)
        path, at = data[at:end], start + (end - start + 8) // 8 * 8
    skipped = bool(flags & ASSUME_VALID or more & SKIP_WORKTREE)
    entry = Indexed(mode, size, seconds * 10**9 + nanoseconds, sha, bool(flags & STAGE), skipped)
    return path, entry, at


def _offset(data: bytes, at: int) -> tuple[int, int]:
    """Return (number, position after it) of git's offset encoding."""
    value = data[at] & 0x7F
    while data[at] & 0x80:
        at += 1
        value = ((value + 1) << 7) | (data[at] & 0x7F)
    return value, at + 1


def _cached_tree(data: bytes, at: int, name_bytes: int) -> bytes | None:
    """Return the root of the cached tree; None if it is not valid. Raise Unreadable for a split index."""
    while at + 8 <= len(data) - name_bytes:
        name, size = struct.unpack_from(">4sI", data, at)
        body, at = data[at + 8 : at + 8 + size], at + 8 + size
        if name == b"link":
            raise Unreadable("the index is split")
        if name == b"TREE" and body[:1] == b"\0":
            line, _, rest = body[1:].partition(b"\n")
            return rest[:name_bytes] if not line.startswith(b"-") else None
    return None
