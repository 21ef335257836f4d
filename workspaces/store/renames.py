"""Find renamed files that were edited as well, as git's merge does: by how much of their lines they share."""

import os
from collections import Counter
from collections.abc import Callable, Iterable

from .lines import split_lines
from .objects import FILE, Entry

ALIKE = 0.5  # of the larger file, that the other has too
ALIKE_BY_NAME = 0.75  # the same for files of one name that no other file has
MAX_BYTES = 8 << 20  # of a file that is compared
MAX_COMPARED = 20_000  # pairs of files; with more, only files of one name are compared
_PIECE = 64  # bytes of a line that are compared as one


def find(
    gone: Iterable[tuple[bytes, Entry]], come: Iterable[tuple[bytes, Entry]], read: Callable[[Entry], bytes]
) -> dict[bytes, bytes]:
    """Return {old path: new path} of the files of `gone` that are among those of `come` with other lines."""
    search = _Search(read)
    old, new = (dict(pair for pair in pairs if _can_be_compared(pair[1])) for pairs in (gone, come))
    found = {}
    for path, other in _of_one_name(old, new):
        if search.share(old[path], new[other]) >= ALIKE_BY_NAME:
            found[path] = other
            del old[path], new[other]
    if len(old) * len(new) > MAX_COMPARED:
        return found
    scored = [
        (-share, os.path.basename(path) != os.path.basename(other), path, other)
        for path in old
        for other in new
        if (share := search.share(old[path], new[other])) >= ALIKE
    ]
    for _, _, path, other in sorted(scored):
        if path in old and other in new:
            found[path] = other
            del old[path], new[other]
    return found


def _can_be_compared(entry: Entry) -> bool:
    return entry.kind == FILE and entry.kept and 0 < entry.size <= MAX_BYTES


def _of_one_name(old: dict[bytes, Entry], new: dict[bytes, Entry]) -> list[tuple[bytes, bytes]]:
    names = [_only_of_its_name(old), _only_of_its_name(new)]
    return [(names[0][name], names[1][name]) for name in sorted(names[0].keys() & names[1].keys())]


def _only_of_its_name(paths: Iterable[bytes]) -> dict[bytes, bytes]:
    counts = Counter(os.path.basename(path) for path in paths)
    return {name: path for path in paths if counts[name := os.path.basename(path)] == 1}


class _Search:
    """Compares files, each of which is read once."""

    def __init__(self, read: Callable[[Entry], bytes]):
        self._read = read
        self._pieces: dict[bytes, Counter] = {}

    def share(self, old: Entry, new: Entry) -> float:
        """Return which part of the larger file the other has too."""
        most = max(old.size, new.size)
        if min(old.size, new.size) < ALIKE * most:
            return 0.0
        here, there = self._pieces_of(old), self._pieces_of(new)
        return sum(len(piece) * min(count, there[piece]) for piece, count in here.items() if piece in there) / most

    def _pieces_of(self, entry: Entry) -> Counter:
        if entry.content not in self._pieces:
            lines = split_lines(self._read(entry))
            pieces = (line[at : at + _PIECE] for line in lines for at in range(0, len(line), _PIECE))
            self._pieces[entry.content] = Counter(pieces)
        return self._pieces[entry.content]
