"""Read which attributes git gives a path: from the .gitattributes at and above it, and .git/info/attributes."""

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import chain
from typing import NamedTuple

from workspaces.git_files import patterns
from workspaces.git_files.work import Spent, Work

NAME = b".gitattributes"
INFO = b".git/info/attributes"
MAX_LINE = 2048  # bytes; git does not use longer ones either
MAX_TEXT = 16 << 20  # bytes of all files of a tree
KEPT = 160  # bytes as which a line counts that is kept
RUN = 4000  # bytes as which it counts if its pattern is kept as an automaton
_BLANK = re.compile(rb"[ \t\r]+")
_ESCAPED = re.compile(rb"\\([0-7]{3}|.)", re.DOTALL)
_LETTERS = {b"a": b"\a", b"b": b"\b", b"t": b"\t", b"n": b"\n", b"v": b"\v", b"f": b"\f", b"r": b"\r"}
Value = bool | str | None  # None: "!name" in a file, which hides what another file says
State = tuple[str, Value]


class Line(NamedTuple):
    """A pattern, or the name of a macro, and what it says in the order of the file."""

    glob: patterns.Glob | None
    macro: str
    states: tuple[State, ...]


class Attributes:
    """The attributes of the paths of a tree; `read(path)` returns a file's bytes, or None."""

    def __init__(self, read: Callable[[bytes], bytes | None], names: frozenset[str] = frozenset(), seconds: float = 60):
        """Read the attributes with these names, or all. No path has any once they took too much work.

        That is more than these seconds of reading and matching, or more than MAX_TEXT.
        """
        self._read, self._names, self._work = read, names, Work(MAX_TEXT, seconds)
        self._files: dict[bytes, list[Line]] = {}
        self._macros: dict[str, tuple[State, ...]] = {"binary": (("diff", False), ("merge", False), ("text", False))}
        self._wanted, self._known = names | self._macros.keys(), {}
        self._info: list[Line] = []
        with suppress(Spent), self._work.running():
            texts = [self._text(NAME), self._text(INFO)]
            lines = chain.from_iterable(map(self._parsed, texts))
            self._wanted |= {line.macro for line in lines if line.macro}
            for line in chain.from_iterable(map(self._parsed, texts)):
                if line.macro:
                    self._macros[line.macro] = self._effective_states(line.states)
            self._info = self._used(texts[1])

    def of(self, path: bytes) -> dict[str, Value]:
        """Return {attribute: its value}: True if set, False if unset, else text; without those it has not."""
        found: dict[str, Value] = {}
        with suppress(Spent), self._work.running():
            self._work.take()
            self._apply(found, self._info, path)
            folders = path.split(b"/")[:-1]
            for depth in range(len(folders), -1, -1):
                prefix = b"".join(name + b"/" for name in folders[:depth])
                self._apply(found, self._lines(prefix), path[len(prefix) :])
            return {name: value for name, value in found.items() if value is not None}
        return {}

    def _lines(self, prefix: bytes) -> list[Line]:
        if prefix not in self._files:
            self._files[prefix] = self._used(self._text(prefix + NAME))
        return self._files[prefix]

    def _text(self, path: bytes) -> bytes:
        text = self._read(path) or b""
        self._work.take(len(text))
        return text

    def _parsed(self, text: bytes) -> Iterator[Line]:
        for line in parse(text):
            self._work.take()
            yield line

    def _used(self, text: bytes) -> list[Line]:
        """Return the lines with a pattern, with what they say of the attributes that are read."""
        used = []
        for line in self._parsed(text):
            if line.glob and (told := self._effective_states(line.states)):
                self._work.take(RUN if line.glob.is_run else KEPT)
                used.append(line._replace(states=told))
        return used

    def _effective_states(self, states: Iterable[State]) -> tuple[State, ...]:
        """Return the last of a line's states for each attribute that is read, or macro."""
        last: dict[str, State] = {}
        for state in states:
            if not self._names or state[0] in self._wanted:
                last.pop(state[0], None)  # so that it stands where it is said last
                last[state[0]] = self._known.setdefault(state, state)
        return tuple(last.values())

    def _apply(self, found: dict[str, Value], lines: list[Line], path: bytes):
        for line in reversed(lines):
            self._work.take()
            if line.glob.matches(path):
                self._take(found, line.states)

    def _take(self, found: dict[str, Value], states: tuple[State, ...]):
        """Note what is not known yet; the last of a line comes first, as does what stands further down."""
        left = list(states)
        while left:
            name, value = left.pop()
            if name not in found:
                found[name] = value
                if value is True and name in self._macros:
                    self._work.take()
                    left += self._macros[name]


def parse(text: bytes) -> Iterator[Line]:
    """Yield the lines of a file of attributes."""
    for line in text.split(b"\n", patterns.MAX_PATTERNS)[: patterns.MAX_PATTERNS]:
        if len(line) <= MAX_LINE and (found := _line(line.lstrip(b" \t\r"))):
            yield found


def _line(text: bytes) -> Line | None:
    if not text or text.startswith((b"#", b"!")):
        return None
    if text.startswith(b'"') and (end := _closing(text)) > 0:
        glob = _ESCAPED.sub(lambda found: _unescaped(found[1]), text[1:end])
        rest = text[end + 1 :]
    else:
        glob, _, rest = _BLANK.sub(b" ", text).partition(b" ")
    states = tuple(_state(word) for word in _BLANK.split(rest) if word)
    if glob.startswith(b"[attr]"):
        return Line(None, glob[6:].decode("utf-8", "replace"), states)
    if glob.endswith(b"/") or len(glob) > patterns.MAX_PATTERN:  # folders have no attributes
        return None
    return Line(patterns.glob_of(glob), "", states)


def _closing(text: bytes) -> int:
    """Return where the quotation mark is that ends a quoted pattern, -1 without one."""
    at = 1
    while at < len(text) and text[at : at + 1] != b'"':
        at += 2 if text[at : at + 1] == b"\\" else 1
    return at if at < len(text) else -1


def _unescaped(code: bytes) -> bytes:
    return bytes([int(code, 8) & 0xFF]) if len(code) == 3 else _LETTERS.get(code, code)


def _state(word: bytes) -> State:
    text = word.decode("utf-8", "replace")
    if text[0] in "-!":
        return text[1:], False if text[0] == "-" else None
    name, is_value, value = text.partition("=")
    return name, value if is_value else True
