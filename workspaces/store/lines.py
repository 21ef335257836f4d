"""Lines of texts, and how much work it is to compare them."""

from bisect import bisect_left

MAX_LINES = 200_000  # of both sides between the first and the last difference, that are compared in any case
MAX_UNMATCHED = 50_000  # lines of longer texts that are not in equal runs; libgit2 takes a second or two for either
MAX_LOOK_BACK = 10_000  # lines before a hunk in which the function is looked for that it is in
TRUSTED_LINES = 10_000  # that libgit2 compares as they are


def split_lines(data: bytes) -> list[bytes]:
    """Split at newlines only, as a diff does; each line keeps its newline."""
    lines = data.split(b"\n")
    return [line + b"\n" for line in lines[:-1]] + ([lines[-1]] if lines[-1] else [])


def line_count(data: bytes) -> int:
    return data.count(b"\n") + (not data.endswith(b"\n") if data else 0)


class Compared:
    """Two texts as libgit2 gets them, with the lines themselves.

    It finds equal lines by a hash that is easy to collide: a text made for it would take hours. So long texts are given
    as numbers, equal lines as the same number.
    """

    def __init__(self, old: bytes, new: bytes, ignore_space: bool):
        self.texts, self.lines = (old, new), None
        self.is_too_much = False
        if old.count(b"\n") + new.count(b"\n") <= TRUSTED_LINES:
            return
        self.lines = split_lines(old), split_lines(new)
        numbers: dict[bytes, int] = {}
        sides = []
        for side in self.lines:
            keys = (b"".join(line.split()) for line in side) if ignore_space else side
            sides.append([numbers.setdefault(key, len(numbers)) for key in keys])
        self.is_too_much = is_too_much(*sides)
        self.texts = tuple(b"".join([b"%d\n" % number for number in side]) for side in sides)

    def content(self, origin: str, old: int | None, new: int | None, given: bytes) -> bytes:
        """Return the line with these numbers; `given` is what libgit2 says."""
        if self.lines is None:
            return given
        return self.lines[0][old - 1] if origin == "-" else self.lines[1][new - 1]

    def heading(self, given: str, first: int) -> str:
        """Return the heading of a hunk at an old line, with the function that it is in, as libgit2 finds one."""
        if self.lines is None:
            return given
        before = self.lines[0][max(0, first - 1 - MAX_LOOK_BACK) : max(0, first - 1)]
        named = next((line for line in reversed(before) if line[:1].isalpha() or line[:1] in (b"_", b"$")), b"")
        return f"{given.rstrip()} {named[:80].rstrip().decode('utf-8', 'replace')}".rstrip()


def is_too_much(before: list[int], after: list[int]) -> bool:
    """Return whether two texts, as the numbers of their lines, are more than libgit2 compares in a second or two."""
    room = min(len(before), len(after))
    start = next((n for n in range(room) if before[n] != after[n]), room)
    room -= start
    end = next((n for n in range(room) if before[-1 - n] != after[-1 - n]), room)
    before, after = before[start : len(before) - end], after[start : len(after) - end]
    if not before or not after or len(before) + len(after) <= MAX_LINES:
        return False
    return len(before) + len(after) - 2 * _matched(before, after) > MAX_UNMATCHED


def _matched(before: list[int], after: list[int]) -> int:
    """Return how many lines are in equal runs around lines that either side has once, in the same order in both."""
    count, end = 0, (0, 0)
    for old, new in _in_order(before, after):
        if old < end[0] or new < end[1]:
            continue
        back = 0
        while min(old - back - end[0], new - back - end[1]) > 0 and before[old - back - 1] == after[new - back - 1]:
            back += 1
        ahead = 0
        while old + ahead < len(before) and new + ahead < len(after) and before[old + ahead] == after[new + ahead]:
            ahead += 1
        count, end = count + back + ahead, (old + ahead, new + ahead)
    return count


def _in_order(before: list[int], after: list[int]) -> list[tuple[int, int]]:
    """Return the places of lines that either side has once, as many as are in the same order in both."""
    places = _once(after)
    pairs = [(at, places[line]) for line, at in _once(before).items() if line in places]
    tops, ends, previous = [], [], [-1] * len(pairs)
    for index, (_, new) in enumerate(pairs):
        at = bisect_left(tops, new)
        previous[index] = ends[at - 1] if at else -1
        tops[at : at + 1], ends[at : at + 1] = [new], [index]
    found, index = [], ends[-1] if ends else -1
    while index >= 0:
        found.append(pairs[index])
        index = previous[index]
    return found[::-1]


def _once(lines: list[int]) -> dict[int, int]:
    """Return {line: place} of the lines that occur once, by place."""
    places: dict[int, int | None] = {}
    for at, line in enumerate(lines):
        places[line] = None if line in places else at
    return {line: at for line, at in places.items() if at is not None}
