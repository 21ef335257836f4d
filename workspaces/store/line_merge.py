"""Merge the lines of a text that two sides changed, with libgit2's merge, which is git's own."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from .lines import is_too_much, split_lines
from .text import MAX_BYTES, is_binary

_HERE, _COMING = "here", "coming"  # how libgit2 gets the sides, and names them in its markers
_FIRST, _MIDDLE, _LAST = "<<<<<<< ", "=======", ">>>>>>> "


class MergedText(NamedTuple):
    """The text of both sides; `lines` has the first and the last line, from 1, of each conflict marked in it."""

    content: bytes
    lines: list[tuple[int, int]]


class LineMerge:
    """Merge texts one after the other; see `merging_lines`."""

    def __init__(self, repository, here: bytes, coming: bytes):
        self.repository, self.names = repository, {_FIRST: here, _LAST: coming}

    def merge(self, base: bytes | None, here: bytes, coming: bytes) -> MergedText | None:
        """Return the text with the changes of both sides; None for binary data and what is too much to compare.

        libgit2 gets numbers in place of lines, equal lines as the same number: no line of a file can look like a
        marker, and its hash of lines cannot be made to collide.
        """
        sides = [base or b"", here, coming]
        if any(is_binary(side) or len(side) > MAX_BYTES for side in sides):
            return None
        numbers: dict[bytes, int] = {}
        numbered = [[numbers.setdefault(line, len(numbers)) for line in split_lines(side)] for side in sides]
        if any(is_too_much(numbered[0], other) for other in numbered[1:]):
            return None
        entries = [self._entry(name, side) for name, side in zip(("base", _HERE, _COMING), numbered, strict=True)]
        found = self.repository.merge_file_from_index(None if base is None else entries[0], *entries[1:])
        end = b"\r\n" if split_lines(here)[:1] and split_lines(here)[0].endswith(b"\r\n") else b"\n"
        return self._with_lines(found.contents, list(numbers), end)

    def _entry(self, name: str, numbers: list[int]):
        import pygit2

        content = b"".join([b"%d\n" % number for number in numbers])
        return pygit2.IndexEntry(name, self.repository.create_blob(content), pygit2.enums.FileMode.BLOB)

    def _with_lines(self, numbered: str, lines: list[bytes], end: bytes) -> MergedText:
        merged, conflicts = [], []
        for found in numbered.splitlines():
            if merged and not merged[-1].endswith(b"\n"):
                merged[-1] += end  # the last line of one side, which is not the last here
            if found.isdecimal():
                merged.append(lines[int(found)])
                continue
            name = self.names.get(found[: len(_FIRST)], b"")
            merged.append(found[: len(_FIRST)].encode() + name + end)
            if found.startswith(_FIRST):
                conflicts.append((len(merged), len(merged)))
            elif found.startswith(_LAST):
                conflicts[-1] = (conflicts[-1][0], len(merged))
        return MergedText(b"".join(merged), conflicts)


@contextmanager
def merging_lines(here: bytes, coming: bytes) -> Iterator[LineMerge]:
    """Yield a LineMerge whose markers name the sides `here` and `coming`."""
    import pygit2  # slow to load

    with tempfile.TemporaryDirectory(prefix="handrail-merge-") as folder:
        yield LineMerge(pygit2.init_repository(folder, bare=True), here, coming)
