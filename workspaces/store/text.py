"""Text diffs of stored files, and whole patches that `git apply` takes."""

import base64
import hashlib
import zlib
from collections.abc import Iterator
from typing import NamedTuple

from .contents import read_entry
from .diff import ADDED, MODE, REMOVED, RENAMED, Change
from .errors import StoreError
from .objects import FILE, SYMLINK, Entry
from .store import Store

MAX_BYTES = 2 << 20  # of either side, for a diff that people look at
PATCH_TEXT_BYTES = 32 << 20  # larger files go into a patch as binary literals
PATCH_FILE_BYTES = 512 << 20
_BINARY_PROBE = 8000  # bytes; git looks as far for a NUL


class Line(NamedTuple):
    """One line of a hunk. origin: " " on both sides, "+" or "-"; a number is None on the side that lacks the line."""

    origin: str
    old_number: int | None
    new_number: int | None
    content: bytes
    ends_without_newline: bool = False


class Hunk(NamedTuple):
    """A run of lines that differ, with the lines around them."""

    old_start: int
    old_lines: int
    new_start: int
    new_lines: int
    header: str
    lines: list[Line]


class TextDiff(NamedTuple):
    """The diff of two contents. Without hunks `binary` or `too_large` says why; both empty means equal."""

    hunks: list[Hunk]
    additions: int
    deletions: int
    binary: bool = False
    too_large: bool = False


def text_diff(old: bytes, new: bytes, *, context: int = 3, max_bytes: int = MAX_BYTES) -> TextDiff:
    """Compare two contents line by line."""
    if is_binary(old) or is_binary(new):
        return TextDiff([], 0, 0, binary=True)
    if max(len(old), len(new)) > max_bytes:
        return TextDiff([], 0, 0, too_large=True)
    import pygit2  # slow to load, and needed by nobody who only takes snapshots

    patch = pygit2.Patch.create_from(old, new, context_lines=context, flag=pygit2.enums.DiffOption.FORCE_TEXT)
    hunks = [_hunk(hunk) for hunk in patch.hunks]
    _, additions, deletions = patch.line_stats
    return TextDiff(hunks, additions, deletions)


def diff_of_change(store: Store, change: Change, *, context: int = 3, max_bytes: int = MAX_BYTES) -> TextDiff:
    """Compare both sides of a change; what is too large is not even read."""
    sides = [side for side in (change.old, change.new) if side is not None and _has_text(side)]
    if any(side.size > max_bytes for side in sides):
        large = [read_entry(store.catalog, side, 0, _BINARY_PROBE) for side in sides]
        binary = any(is_binary(start) for start in large)
        return TextDiff([], 0, 0, binary=binary, too_large=not binary)
    old, new = (_bytes_of(store, side) for side in (change.old, change.new))
    return text_diff(old, new, context=context, max_bytes=max_bytes)


def is_binary(data: bytes) -> bool:
    """Whether git would call it binary."""
    return b"\0" in data[:_BINARY_PROBE]


def _has_text(entry: Entry) -> bool:
    return entry.kind in (FILE, SYMLINK) and entry.kept


def _bytes_of(store: Store, entry: Entry | None) -> bytes:
    return read_entry(store.catalog, entry) if entry is not None and _has_text(entry) else b""


def _hunk(hunk) -> Hunk:
    lines: list[Line] = []
    for line in hunk.lines:
        if line.origin in "<>=":  # "\ No newline at end of file" belongs to the line before it
            last = lines[-1]
            lines[-1] = Line(last.origin, last.old_number, last.new_number, last.content, True)
            continue
        old, new = (number if number > 0 else None for number in (line.old_lineno, line.new_lineno))
        lines.append(Line(line.origin, old, new, line.raw_content))
    return Hunk(hunk.old_start, hunk.old_lines, hunk.new_start, hunk.new_lines, hunk.header, lines)


# -- patches -------------------------------------------------------------------------------------------------------


def patch(store: Store, a: str, b: str) -> Iterator[bytes]:
    """Yield a patch from tree a to tree b, one piece for each file.

    It holds what git can hold: files and symlinks with their contents and the executable bit. Folders, FIFOs, owners,
    times and everything inside a `.git` stay out.
    """
    for change in store.diff(a, b):
        if inside_git(change.path) or (change.old_path and inside_git(change.old_path)):
            yield from _halfinside_git(store, change)
        else:
            yield from _one(store, change)


def _halfinside_git(store: Store, change: Change) -> Iterator[bytes]:
    # What was moved into or out of a repository's own folder went or came as far as git can see.
    if change.kind != RENAMED:
        return
    if not inside_git(change.path):
        yield from _whole(store, change.path, None, change.new)
    elif not inside_git(change.old_path):
        yield from _whole(store, change.old_path, change.old, None)


def inside_git(path: bytes) -> bool:
    """Git's own files, which no patch holds, and which say nothing that the working tree does not say."""
    return b".git" in path.lower().split(b"/")


def _one(store: Store, change: Change) -> Iterator[bytes]:
    old = change.old if change.old is not None and _has_text(change.old) else None
    new = change.new if change.new is not None and _has_text(change.new) else None
    if change.kind == RENAMED:
        yield _renamed(change)
    elif old and new and old.kind != new.kind:
        yield from _whole(store, change.path, old, None)
        yield from _whole(store, change.path, None, new)
    elif change.kind in (ADDED, REMOVED) or not (old and new):
        if old or new:
            yield from _whole(store, change.path, old, new)
    elif change.kind != MODE or git_mode(old) != git_mode(new):
        yield from _whole(store, change.path, old, new)


def git_mode(entry: Entry) -> str:
    if entry.kind == SYMLINK:
        return "120000"
    return "100755" if entry.mode & 0o100 else "100644"


def quoted(path: bytes) -> bytes:
    """Return a path as git prints it: in C quotes when it holds anything unusual."""
    if all(0x20 <= byte < 0x7F and byte not in b'"\\' for byte in path):
        return path
    escapes = {7: b"\\a", 8: b"\\b", 9: b"\\t", 10: b"\\n", 11: b"\\v", 12: b"\\f", 13: b"\\r", 34: b'\\"', 92: b"\\\\"}
    return b'"%s"' % b"".join(
        escapes.get(byte) or (b"%c" % byte if 0x20 <= byte < 0x7F else b"\\%03o" % byte) for byte in path
    )


def _renamed(change: Change) -> bytes:
    lines = [b"diff --git %s %s" % (quoted(b"a/" + change.old_path), quoted(b"b/" + change.path))]
    before, after = git_mode(change.old), git_mode(change.new)
    if before != after:
        lines += [b"old mode %s" % before.encode(), b"new mode %s" % after.encode()]
    lines += [
        b"similarity index 100%",
        b"rename from %s" % quoted(change.old_path),
        b"rename to %s" % quoted(change.path),
    ]
    return b"\n".join(lines) + b"\n"


def _whole(store: Store, path: bytes, old: Entry | None, new: Entry | None) -> Iterator[bytes]:
    """Yield one file's part of a patch; one side is None for a file that came or went."""
    if max(side.size for side in (old, new) if side) > PATCH_FILE_BYTES:
        raise StoreError(f"{path!r} is too large for a patch")
    before, after = _bytes_of(store, old), _bytes_of(store, new)
    a, b = quoted(b"a/" + path), quoted(b"b/" + path)
    modes = [git_mode(side).encode() if side else None for side in (old, new)]
    head = [b"diff --git %s %s" % (a, b)]
    if old is None:
        head.append(b"new file mode %s" % modes[1])
    elif new is None:
        head.append(b"deleted file mode %s" % modes[0])
    elif modes[0] != modes[1]:
        head += [b"old mode %s" % modes[0], b"new mode %s" % modes[1]]
    if before != after or old is None or new is None:
        names = [_blob_name(data) if side else b"0" * 40 for side, data in ((old, before), (new, after))]
        head.append(b"index %s..%s" % tuple(names) + (b" " + modes[0] if modes[0] == modes[1] else b""))
    yield b"\n".join(head) + b"\n"
    if before == after:
        return
    if is_binary(before) or is_binary(after) or max(len(before), len(after)) > PATCH_TEXT_BYTES:
        yield b"GIT binary patch\n" + _literal(after) + _literal(before)
        return
    # git takes a blank in a name for the end of it unless a tab follows.
    tabs = [b"\t" if b" " in path else b""] * 2
    yield b"--- %s%s\n+++ %s%s\n" % (
        a if old else b"/dev/null", tabs[0] if old else b"", b if new else b"/dev/null", tabs[1] if new else b"",
    )  # fmt: skip
    for hunk in text_diff(before, after, max_bytes=PATCH_TEXT_BYTES).hunks:
        yield _hunk_bytes(hunk)


def _hunk_bytes(hunk: Hunk) -> bytes:
    numbers = (hunk.old_start, hunk.old_lines, hunk.new_start, hunk.new_lines)
    parts = [b"@@ -%d,%d +%d,%d @@\n" % numbers]
    for line in hunk.lines:
        parts.append(line.origin.encode() + line.content)
        if line.ends_without_newline:
            parts.append(b"\n\\ No newline at end of file\n")
    return b"".join(parts)


def _blob_name(data: bytes) -> bytes:
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest().encode()


def _literal(data: bytes) -> bytes:
    """One side of a binary patch: zlib in lines of at most 52 bytes, each with its length as a letter."""
    packed = zlib.compress(data)
    lines = [b"literal %d\n" % len(data)]
    for at in range(0, len(packed), 52):
        piece = packed[at : at + 52]
        length = len(piece) + (64 if len(piece) <= 26 else 70)
        lines.append(b"%c%s\n" % (length, base64.b85encode(piece, pad=True)))
    lines.append(b"\n")
    return b"".join(lines)
