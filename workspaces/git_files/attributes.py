"""Read which attributes git gives a path: from the .gitattributes at and above it, and .git/info/attributes."""

import re
import time
from collections.abc import Callable
from typing import NamedTuple

from workspaces.git_files import patterns

NAME = b".gitattributes"
INFO = b".git/info/attributes"
MAX_LINE = 2048  # bytes; git does not use longer ones either
_BLANK = re.compile(rb"[ \t\r]+")
_ESCAPED = re.compile(rb"\\([0-7]{3}|.)", re.DOTALL)
_LETTERS = {b"a": b"\a", b"b": b"\b", b"t": b"\t", b"n": b"\n", b"v": b"\v", b"f": b"\f", b"r": b"\r"}
Value = bool | str | None  # None: "!name" in a file, which hides what another file says
State = tuple[str, Value]


class Line(NamedTuple):
    """A pattern, or the name of a macro, and what it says in the order of the file."""

    parts: tuple[bytes, ...]
    macro: str
    states: list[State]


class Attributes:
    """The attributes of the paths of a tree; `read(path)` returns a file's bytes, or None."""

    def __init__(self, read: Callable[[bytes], bytes | None], names: frozenset[str] = frozenset(), seconds: float = 60):
        """Read the attributes with these names, or all; after that many seconds of matching no path has any."""
        self._read, self._names, self._left = read, names, seconds
        self._files: dict[bytes, list[Line]] = {}
        self._macros = {"binary": [("diff", False), ("merge", False), ("text", False)]}
        info = parse(read(INFO) or b"")
        for line in [*parse(read(NAME) or b""), *info]:
            if line.macro:
                self._macros[line.macro] = line.states
        self._info = self._used(info)

    def of(self, path: bytes) -> dict[str, Value]:
        """Return {attribute: its value}: True if set, False if unset, else text; without those it has not."""
        found: dict[str, Value] = {}
        started = time.monotonic()
        self._until = started + self._left
        self._apply(found, self._info, path)
        folders = path.split(b"/")[:-1]
        for depth in range(len(folders), -1, -1):
            prefix = b"".join(name + b"/" for name in folders[:depth])
            self._apply(found, self._lines(prefix), path[len(prefix) :])
        self._left -= time.monotonic() - started
        return {name: value for name, value in found.items() if value is not None} if self._left > 0 else {}

    def _lines(self, prefix: bytes) -> list[Line]:
        if prefix not in self._files:
            self._files[prefix] = self._used(parse(self._read(prefix + NAME) or b""))
        return self._files[prefix]

    def _used(self, lines: list[Line]) -> list[Line]:
        """Return the lines with a pattern that say something of the attributes that are read."""
        wanted = self._names | self._macros.keys()
        return [
            line for line in lines if line.parts and (not self._names or wanted & {name for name, _ in line.states})
        ]

    def _apply(self, found: dict[str, Value], lines: list[Line], path: bytes):
        names = tuple(path.split(b"/"))
        for line in reversed(lines):
            if time.monotonic() > self._until:
                return
            if patterns.is_path(line.parts, names):
                self._take(found, line.states)

    def _take(self, found: dict[str, Value], states: list[State]):
        """Note what is not known yet; the last of a line comes first, as does what stands further down."""
        for name, value in reversed(states):
            if name not in found:
                found[name] = value
                if value is True and name in self._macros:
                    self._take(found, self._macros[name])


def parse(text: bytes) -> list[Line]:
    """Return the lines of a file of attributes."""
    lines = text.split(b"\n")[: patterns.MAX_PATTERNS]
    return [found for line in lines if len(line) <= MAX_LINE and (found := _line(line.lstrip(b" \t\r")))]


def _line(text: bytes) -> Line | None:
    if not text or text.startswith((b"#", b"!")):
        return None
    if text.startswith(b'"') and (end := _closing(text)) > 0:
        glob = _ESCAPED.sub(lambda found: _unescaped(found[1]), text[1:end])
        rest = text[end + 1 :]
    else:
        glob, _, rest = _BLANK.sub(b" ", text).partition(b" ")
    states = [_state(word) for word in _BLANK.split(rest) if word]
    if glob.startswith(b"[attr]"):
        return Line((), glob[6:].decode("utf-8", "replace"), states)
    if glob.endswith(b"/") or len(glob) > patterns.MAX_PATTERN:  # folders have no attributes
        return None
    parts = tuple(part for part in glob.split(b"/") if part)
    return Line(parts if b"/" in glob else (b"**", *parts), "", states) if parts else None


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
