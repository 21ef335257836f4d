"""Text diffs of stored files, and patches between trees for `git apply`."""

import base64
import hashlib
import zlib
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from .content import read_entry
from .diff import ADDED, MODE, REMOVED, RENAMED, Change, reviewed
from .errors import StoreError
from .facts import facts
from .lines import Compared, line_count
from .objects import FILE, SYMLINK, Entry
from .repository import Store

MAX_BYTES = 8 << 20  # of either side of a displayed diff
PATCH_TEXT_BYTES = 32 << 20  # larger files become binary literals in a patch
PATCH_FILE_BYTES = 512 << 20
_BINARY_PROBE = 8000  # bytes to search for a NUL, as many as git does


class Line(NamedTuple):
    """One line of a hunk. origin: " " (context), "+" or "-". A line number is None on the side that lacks the line."""

    origin: str
    old_number: int | None
    new_number: int | None
    content: bytes

    @property
    def ends_without_newline(self) -> bool:
        """True of the last line of a text that does not end with a newline."""
        return not self.content.endswith(b"\n")


class Hunk(NamedTuple):
    """A run of differing lines with their context."""

    old_start: int
    old_lines: int
    new_start: int
    new_lines: int
    header: str
    lines: list[Line]


class TextDiff(NamedTuple):
    """The diff of two contents. Without hunks it is `binary`, `too_large`, or equal if neither is set."""

    hunks: list[Hunk]
    additions: int
    deletions: int
    binary: bool = False
    too_large: bool = False


def text_diff(
    old: bytes,
    new: bytes,
    *,
    context: int = 3,
    max_bytes: int = MAX_BYTES,
    ignore_space: bool = False,
    hunks: bool = True,
) -> TextDiff:
    """Compare two contents line by line; with `ignore_space`, lines that differ only in whitespace are equal.

    `hunks=False` only counts the lines.
    """
    if is_binary(old) or is_binary(new):
        return TextDiff([], 0, 0, binary=True)
    if max(len(old), len(new)) > max_bytes:
        return TextDiff([], 0, 0, too_large=True)
    if not hunks and not (old and new):
        return TextDiff([], line_count(new), line_count(old))
    compared = Compared(old, new, ignore_space)
    if compared.is_too_much:
        return TextDiff([], 0, 0, too_large=True)
    import pygit2  # slow to load, and not needed to take snapshots

    flags = pygit2.enums.DiffOption.FORCE_TEXT
    flags |= pygit2.enums.DiffOption.IGNORE_WHITESPACE if ignore_space else 0
    patch = pygit2.Patch.create_from(*compared.texts, context_lines=context, flag=flags)
    found = [_hunk(hunk, compared) for hunk in patch.hunks] if hunks else []
    _, additions, deletions = patch.line_stats
    return TextDiff(found, additions, deletions)


def diff_of_change(
    store: Store, change: Change, *, context: int = 3, max_bytes: int = MAX_BYTES, hunks: bool = True
) -> TextDiff:
    """Compare both sides of a change, as `text_diff`; a file larger than `max_bytes` is not read in full."""
    sides = [side for side in (change.old, change.new) if side is not None and _has_text(side)]
    if any(side.size > max_bytes for side in sides):
        large = [read_entry(store.catalog, side, 0, _BINARY_PROBE) for side in sides]
        binary = any(is_binary(start) for start in large)
        return TextDiff([], 0, 0, binary=binary, too_large=not binary)
    old, new = (_bytes_of(store, side) for side in (change.old, change.new))
    return text_diff(old, new, context=context, max_bytes=max_bytes, hunks=hunks)


def is_binary(data: bytes) -> bool:
    """Return True if git would treat the data as binary."""
    return b"\0" in data[:_BINARY_PROBE]


def _has_text(entry: Entry) -> bool:
    return entry.kind in (FILE, SYMLINK) and entry.kept


def _bytes_of(store: Store, entry: Entry | None) -> bytes:
    return read_entry(store.catalog, entry) if entry is not None and _has_text(entry) else b""


def _hunk(hunk, compared: Compared) -> Hunk:
    lines: list[Line] = []
    for line in hunk.lines:
        if line.origin in "<>=":  # "\ No newline at end of file" says of the line before it what its content says
            continue
        old, new = (number if number > 0 else None for number in (line.old_lineno, line.new_lineno))
        lines.append(Line(line.origin, old, new, compared.content(line.origin, old, new, line.raw_content)))
    heading = compared.heading(hunk.header, hunk.old_start)
    return Hunk(hunk.old_start, hunk.old_lines, hunk.new_start, hunk.new_lines, heading, lines)


# -- patches -------------------------------------------------------------------------------------------------------


class Form:
    """How a patch has the files: here as they are, with the names that git gives blobs by SHA-1."""

    algorithm = "sha1"

    def sides(self, path: bytes, before: bytes | None, after: bytes | None) -> tuple[bytes | None, bytes | None]:
        """Return both contents of a path; None where there is no file."""
        return before, after

    def alters(self, path: bytes) -> bool:
        """Return whether a file at this path may have another content than the one on disk."""
        return False

    def renewed(self, changed: set[bytes]) -> list[bytes]:
        """Return paths of files that did not change and may have another content in the patch all the same."""
        return []

    def name(self, data: bytes) -> bytes:
        """Return the name of the blob with this content."""
        hashed = hashlib.new(self.algorithm, b"blob %d\0" % len(data), usedforsecurity=False)
        hashed.update(data)
        return hashed.hexdigest().encode()


def patch(
    store: Store,
    a: str,
    b: str,
    *,
    without: frozenset[bytes] = frozenset(),
    owners: bool = True,
    form: Form | None = None,
    also: Iterable[bytes] = (),
) -> Iterator[bytes]:
    """Yield a patch from tree a to tree b, file by file. Raise StoreError for a file beyond PATCH_FILE_BYTES.

    It holds what git tracks: files and symlinks with their contents and the executable bit. What git has no form for
    is named in comments before the first file, which `git apply` passes over. Times and everything inside a `.git` are
    left out, and so are the changes of the paths in `without`. `owners`: see `diff.reviewed`.
    `also`: paths of files that are the same in both trees, and differ in the form alone.
    """
    files = _Files(store, form or Form())
    changes = [change for change in reviewed(store.diff(a, b), owners=owners) if change.path not in without]
    outside = [change for change in changes if not inside_git(change.path)]
    yield from _comments(outside, owners)
    for change in changes:
        if inside_git(change.path) or (change.old_path and inside_git(change.old_path)):
            yield from _halfinside_git(files, change)
        else:
            yield from _one(files, change)
    for path in also:
        yield from _whole(files, path, store.entry(a, path), store.entry(b, path))


def _comments(changes: list[Change], owners: bool) -> Iterator[bytes]:
    told = [(change, [fact for fact in facts(change, owners=owners) if not fact.in_git]) for change in changes]
    if any(found for _, found in told):
        yield b"# Not in this patch, because git has no form for it:\n"
        for change, found in told:
            if found:
                yield b"#   %s: %s\n" % (quoted(change.path), b", ".join(quoted(str(fact).encode()) for fact in found))


class _Files(NamedTuple):
    """Where the contents are, and how the patch has them."""

    store: Store
    form: Form


def _halfinside_git(files: _Files, change: Change) -> Iterator[bytes]:
    # For git, a file moved into a .git folder was deleted, and one moved out of it was added.
    if change.kind != RENAMED:
        return
    if not inside_git(change.path):
        yield from _whole(files, change.path, None, change.new)
    elif not inside_git(change.old_path):
        yield from _whole(files, change.old_path, change.old, None)


def inside_git(path: bytes) -> bool:
    """Return True for a path in a `.git` folder, which patches leave out: it adds nothing to the working tree."""
    return b".git" in path.lower().split(b"/")


def _one(files: _Files, change: Change) -> Iterator[bytes]:
    old = change.old if change.old is not None and _has_text(change.old) else None
    new = change.new if change.new is not None and _has_text(change.new) else None
    if change.kind == RENAMED and _differs_by_path(files, change):
        yield from _whole(files, change.old_path, old, None)
        yield from _whole(files, change.path, None, new)
    elif change.kind == RENAMED:
        yield _renamed(change)
    elif old and new and old.kind != new.kind:
        yield from _whole(files, change.path, old, None)
        yield from _whole(files, change.path, None, new)
    elif change.kind in (ADDED, REMOVED) or not (old and new):
        if old or new:
            yield from _whole(files, change.path, old, new)
    elif change.kind != MODE or git_mode(old) != git_mode(new):
        yield from _whole(files, change.path, old, new)


def _differs_by_path(files: _Files, change: Change) -> bool:
    """Return whether a file that only moved has another content in the patch at its new path."""
    if not (files.form.alters(change.old_path) or files.form.alters(change.path)):
        return False
    before, _ = _sides(files, change.old_path, change.old, None)
    _, after = _sides(files, change.path, None, change.new)
    return before != after


def git_mode(entry: Entry) -> str:
    if entry.kind == SYMLINK:
        return "120000"
    return "100755" if entry.mode & 0o100 else "100644"


def quoted(path: bytes) -> bytes:
    """Return a path as git prints it: C-quoted if it has unusual bytes.

    Also if a folder's name ends with a blank: `git apply` reads no name from such a header without quotes.
    """
    if b" /" not in path and all(0x20 <= byte < 0x7F and byte not in b'"\\' for byte in path):
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


def _whole(files: _Files, path: bytes, old: Entry | None, new: Entry | None) -> Iterator[bytes]:
    """Yield the part of a patch for one file; `old` is None for an added file, `new` for a deleted one."""
    if max(side.size for side in (old, new) if side) > PATCH_FILE_BYTES:
        raise StoreError(f"{path!r} is too large for a patch")
    before, after = _sides(files, path, old, new)
    if before == after and old and new and git_mode(old) == git_mode(new):
        return  # only what git does not keep differs, such as line ends
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
        none = b"0" * len(files.form.name(b""))
        names = [files.form.name(data) if side else none for side, data in ((old, before), (new, after))]
        head.append(b"index %s..%s" % tuple(names) + (b" " + modes[0] if modes[0] == modes[1] else b""))
    yield b"\n".join(head) + b"\n"
    if before == after:
        return
    diff = text_diff(before, after, max_bytes=PATCH_TEXT_BYTES)
    if diff.binary or diff.too_large:
        yield b"GIT binary patch\n" + _literal(after) + _literal(before)
        return
    # git ends a file name at a space unless a tab follows the name.
    tabs = [b"\t" if b" " in path else b""] * 2
    yield b"--- %s%s\n+++ %s%s\n" % (
        a if old else b"/dev/null", tabs[0] if old else b"", b if new else b"/dev/null", tabs[1] if new else b"",
    )  # fmt: skip
    for hunk in diff.hunks:
        yield _hunk_bytes(hunk)


def _sides(files: _Files, path: bytes, old: Entry | None, new: Entry | None) -> tuple[bytes, bytes]:
    """Return both contents as the patch has them; b"" where there is no file."""
    raw = [_bytes_of(files.store, side) if side else None for side in (old, new)]
    asked = [data if side and side.kind == FILE else None for data, side in zip(raw, (old, new), strict=True)]
    kept = files.form.sides(path, *asked)
    before, after = (data if data is not None else plain or b"" for data, plain in zip(kept, raw, strict=True))
    return before, after


def _hunk_bytes(hunk: Hunk) -> bytes:
    numbers = (hunk.old_start, hunk.old_lines, hunk.new_start, hunk.new_lines)
    parts = [b"@@ -%d,%d +%d,%d @@\n" % numbers]
    for line in hunk.lines:
        parts.append(line.origin.encode() + line.content)
        if line.ends_without_newline:
            parts.append(b"\n\\ No newline at end of file\n")
    return b"".join(parts)


def _literal(data: bytes) -> bytes:
    """Return one side of a git binary patch: zlib data in base85, 52 bytes a line, with the length as first letter."""
    packed = zlib.compress(data)
    lines = [b"literal %d\n" % len(data)]
    for at in range(0, len(packed), 52):
        piece = packed[at : at + 52]
        length = len(piece) + (64 if len(piece) <= 26 else 70)
        lines.append(b"%c%s\n" % (length, base64.b85encode(piece, pad=True)))
    lines.append(b"\n")
    return b"".join(lines)
