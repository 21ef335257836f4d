"""Match gitignore patterns in time that grows with pattern times name: no pattern of an agent can keep the runner busy.

Regular expressions made from such patterns, as pathspec makes them, can take minutes (see workspaces/ignoring.py).
"""

from functools import lru_cache
from typing import NamedTuple

MAX_PATTERNS = 2000  # of one file
MAX_PATTERN = 500  # bytes; longer ones are not used


class Pattern(NamedTuple):
    is_negated: bool
    folders_only: bool
    parts: tuple[bytes, ...]  # between its slashes; a first b"**" if it may match at any depth


def parse(text: bytes) -> list[Pattern]:
    """Return the patterns of an ignore file, in order."""
    lines = (line.rstrip(b"\r") for line in text.split(b"\n")[:MAX_PATTERNS])
    return [found for line in lines if len(line) <= MAX_PATTERN and (found := _pattern(line))]


def _pattern(line: bytes) -> Pattern | None:
    line = line.rstrip(b" ") + (b" " if line.rstrip(b" ").endswith(b"\\") else b"")
    if not line or line.startswith(b"#"):
        return None
    is_negated = line.startswith(b"!")
    line = line[1:] if is_negated else line
    folders_only = line.endswith(b"/")
    line = line.removesuffix(b"/")
    anchored = b"/" in line
    parts = tuple(part for part in line.split(b"/") if part)
    if not parts:
        return None
    return Pattern(is_negated, folders_only, parts if anchored else (b"**", *parts))


def matching(patterns: list[Pattern], path: bytes, is_folder: bool) -> bool | None:
    """Return whether the last matching pattern ignores the path (below the file's folder); None if none matches."""
    names = tuple(path.split(b"/"))
    for pattern in reversed(patterns):
        if (is_folder or not pattern.folders_only) and is_path(pattern.parts, names):
            return not pattern.is_negated
    return None


def is_path(parts: tuple[bytes, ...], names: tuple[bytes, ...]) -> bool:
    """Return whether the parts match the whole path.

    Match from the end, so that the cheapest comparison comes first; a row holds which ends of `names` match.
    """
    row = [False] * len(names) + [True]
    for number, part in enumerate(reversed(parts)):
        if part == b"**":
            # At the end it stands for all that is inside, elsewhere for any folders, or none.
            least = 1 if number == 0 else 0
            row = [any(row[at + least :]) for at in range(len(row))]
        else:
            row = [row[at + 1] and is_name(part, names[at]) for at in range(len(names))] + [False]
        if not any(row):
            return False
    return row[0]


@lru_cache(maxsize=4096)
def is_name(glob: bytes, name: bytes) -> bool:
    """Return whether a glob without slashes matches a whole name."""
    at = position = 0
    star, retry = -1, 0
    while position < len(name):
        if glob[at : at + 1] == b"*":
            star, retry = at, position
            at += 1
            continue
        step = _one(glob, at, name[position]) if at < len(glob) else 0
        if step:
            at, position = at + step, position + 1
        elif star >= 0:
            retry += 1
            at, position = star + 1, retry
        else:
            return False
    return not glob[at:].strip(b"*")


def _one(glob: bytes, at: int, byte: int) -> int:
    """Return how many bytes of the glob match this byte, 0 if it does not match."""
    sign = glob[at : at + 1]
    if sign == b"?":
        return 1
    if sign == b"\\" and at + 1 < len(glob):
        return 2 if glob[at + 1] == byte else 0
    if sign == b"[" and (end := glob.find(b"]", at + 2 + (glob[at + 1 : at + 2] in (b"!", b"^")))) > 0:
        return end + 1 - at if _in_class(glob[at + 1 : end], byte) else 0
    return 1 if glob[at] == byte else 0


def _in_class(members: bytes, byte: int) -> bool:
    is_negated = members[:1] in (b"!", b"^")
    members, found, at = members[is_negated:], False, 0
    while at < len(members):
        if members[at + 1 : at + 2] == b"-" and at + 2 < len(members):
            found, at = found or members[at] <= byte <= members[at + 2], at + 3
        else:
            found, at = found or members[at] == byte, at + 1
    return found != is_negated
