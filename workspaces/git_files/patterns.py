"""Match gitignore patterns as git does, in time that grows with pattern times path: none of an agent takes long.

A pattern is run as a nondeterministic automaton whose states are the bits of one number. Regular expressions made
from such patterns can take minutes.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

MAX_PATTERNS = 2000  # of one file
MAX_IN_ALL = 10_000  # of all files that are read for one answer; who reads them counts
MAX_PATTERN = 500  # bytes; longer ones are not used
MAX_STEPS = 64  # that an automaton keeps; a path of a person has fewer different bytes
_SPECIAL = re.compile(rb"[*?\[\\]")
_NAMED_CLASS = re.compile(rb"\[:([^\]]*):\]")
_SLASH = ord("/")
_EVERY = (1 << 256) - 1
_NO_SLASH = _EVERY & ~(1 << _SLASH)


@dataclass(slots=True)
class Glob:
    """A pattern without what stands around it: the text before its first wildcard, and the rest."""

    prefix: bytes
    rest: bytes
    of_name: bool  # without a slash it matches the last name of a path, else the whole path
    suffix: bytes | None  # if `*` and this text are all that it is
    _automaton: "_Automaton | None" = field(default=None, repr=False, compare=False)  # of the rest, once it is needed

    @property
    def is_run(self) -> bool:
        """Whether matching it may take long, and memory that stays."""
        return self.suffix is None and bool(self.rest)

    def matches(self, path: bytes) -> bool:
        text = path[path.rfind(b"/") + 1 :] if self.of_name else path
        if self.suffix is not None:
            return text.endswith(self.suffix)
        if not text.startswith(self.prefix):
            return False
        if not self.rest:
            return len(text) == len(self.prefix)
        if self._automaton is None:
            self._automaton = _Automaton(self.rest)
        return self._automaton.accepts(text[len(self.prefix) :])


class Pattern(NamedTuple):
    is_negated: bool
    folders_only: bool
    glob: Glob


def parse(text: bytes) -> list[Pattern]:
    """Return the patterns of an ignore file, in order."""
    lines = text.removeprefix(b"\xef\xbb\xbf").split(b"\n", MAX_PATTERNS)[:MAX_PATTERNS]
    lines = [line.removesuffix(b"\r") for line in lines]
    return [found for line in lines if len(line) <= MAX_PATTERN and (found := _pattern(line))]


def _pattern(line: bytes) -> Pattern | None:
    if line.startswith(b"#"):
        return None
    line = _without_last_spaces(line)
    is_negated = line.startswith(b"!")
    line = line[1:] if is_negated else line
    return Pattern(is_negated, line.endswith(b"/"), glob_of(line.removesuffix(b"/"))) if line else None


def _without_last_spaces(line: bytes) -> bytes:
    short = line.rstrip(b" ")
    escaping = len(short) - len(short.rstrip(b"\\"))
    return line[: len(short) + 1] if escaping % 2 else short


def glob_of(text: bytes) -> Glob:
    """Return a pattern's glob, from its text without a `!` before it and a slash behind it."""
    of_name = b"/" not in text
    text = text.removeprefix(b"/")
    special = _SPECIAL.search(text)
    at = special.start() if special else len(text)
    is_suffix = of_name and text[:1] == b"*" and not _SPECIAL.search(text, 1)
    return Glob(text[:at], text[at:], of_name, text[1:] if is_suffix else None)


def matching(
    patterns: list[Pattern], path: bytes, is_folder: bool, take: Callable[[], None] = lambda: None
) -> bool | None:
    """Return whether the last matching pattern ignores the path (below the file's folder); None if none matches.

    `take` is called again and again meanwhile; it raises an error to end it.
    """
    take()
    for pattern in reversed(patterns):
        if pattern.folders_only and not is_folder:
            continue
        if pattern.glob.is_run:
            take()
        if pattern.glob.matches(path):
            return not pattern.is_negated
    return None


def innermost(
    files: tuple[tuple[bytes, list[Pattern]], ...], path: bytes, is_folder: bool, take: Callable[[], None]
) -> bool:
    """Return what the last ignore file with a matching pattern says, of (its folder with a slash, its patterns)."""
    for prefix, patterns in reversed(files):
        if (found := matching(patterns, path[len(prefix) :], is_folder, take)) is not None:
            return found
    return False


class _Automaton:
    """The part of a glob from its first wildcard on. State n: the first n tokens have matched what was read."""

    def __init__(self, glob: bytes):
        self.tokens: list[int] = []  # the bytes that each token matches, as the bits of a number
        self.stars = self.over_slashes = self.skipped = (
            0  # states before a `*`, a `**`, a `**/` that stands for nothing
        )
        self._steps: dict[int, int] = {}  # by byte: the states that it leads on from
        at = 0
        while at < len(glob):
            at = self._star(glob, at) if glob[at : at + 1] == b"*" else self._one(glob, at)
        self.end = 1 << len(self.tokens)

    def _star(self, glob: bytes, at: int) -> int:
        end = at
        while glob[end : end + 1] == b"*":
            end += 1
        state = 1 << len(self.tokens)
        is_whole = glob[end : end + 1] in (b"", b"/") or glob[end : end + 2] == b"\\/"
        if end - at > 1 and (at == 0 or glob[at - 1] == _SLASH) and is_whole:
            if glob[end : end + 1] == b"/":
                if len(self.tokens) > 1 and self.skipped & state >> 2:
                    return end + 1  # `**/**/` is `**/`
                self.skipped |= state
            self.over_slashes |= state
        self.stars |= state
        self.tokens.append(0)
        return end

    def _one(self, glob: bytes, at: int) -> int:
        sign = glob[at : at + 1]
        if sign == b"?":
            self.tokens.append(_NO_SLASH)
        elif sign == b"[":
            members, at = _members(glob, at)
            self.tokens.append(members & _NO_SLASH)
        else:
            at += sign == b"\\"
            self.tokens.append(1 << glob[at] if at < len(glob) else 0)
        return at + 1

    def accepts(self, text: bytes) -> bool:
        states = self._with_stars(self._with_skips(1))
        for byte in text:
            if (step := self._steps.get(byte)) is None:
                if len(self._steps) == MAX_STEPS:
                    self._steps.clear()
                step = self._steps[byte] = self._step(byte)
            stay = states & (self.over_slashes if byte == _SLASH else self.stars)
            states = self._with_stars(self._with_skips((states & step) << 1) | stay)
            if not states:
                return False
        return bool(states & self.end)

    def _step(self, byte: int) -> int:
        return sum(1 << at for at, members in enumerate(self.tokens) if members >> byte & 1)

    def _with_skips(self, states: int) -> int:
        return states | (states & self.skipped) << 2

    def _with_stars(self, states: int) -> int:
        return states | (states & self.stars) << 1


def _members(glob: bytes, at: int) -> tuple[int, int]:
    """Return (the bytes of the class that begins at `at`, where its `]` is); none, and the end, without a `]`."""
    at += 1
    is_negated = glob[at : at + 1] in (b"!", b"^")
    at += is_negated
    found, before, is_first = 0, 0, True
    while is_first or glob[at : at + 1] != b"]":
        is_first = False
        if named := _NAMED_CLASS.match(glob, at):
            if named[1] not in _NAMED:
                return 0, len(glob)
            found, before, at = found | _NAMED[named[1]], 0, named.end()
            continue
        is_range = before > 0 and glob[at : at + 1] == b"-" and glob[at + 1 : at + 2] not in (b"", b"]")
        at += is_range
        at += glob[at : at + 1] == b"\\"
        if at >= len(glob):
            return 0, at
        last = glob[at]
        found |= _range(before if is_range else last, last)
        before, at = 0 if is_range else last, at + 1
    return (_EVERY & ~found if is_negated else found), at


def _range(first: int, last: int) -> int:
    return max(0, (2 << last) - (1 << first))


def _ascii(*ranges: str) -> int:
    return sum(_range(ord(first), ord(last)) for first, last in ranges)


_NAMED = {
    b"lower": _ascii("az"),
    b"upper": _ascii("AZ"),
    b"alpha": _ascii("az", "AZ"),
    b"digit": _ascii("09"),
    b"alnum": _ascii("az", "AZ", "09"),
    b"xdigit": _ascii("09", "af", "AF"),
    b"blank": _ascii("  ", "\t\t"),
    b"space": _ascii("  ", "\t\r"),
    b"cntrl": _ascii("\0\x1f", "\x7f\x7f"),
    b"graph": _ascii("!~"),
    b"print": _ascii(" ~"),
    b"punct": _ascii("!/", ":@", "[`", "{~"),
}
