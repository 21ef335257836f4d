"""Write a regular expression of Python as one of JavaScript that costs the same: what recheck reads."""

import re
from math import prod
from re import _constants as c
from re import _parser as parser

MOST = 100  # a repeat of at most so many is a constant factor, as long as all of a pattern together are below FACTOR
FACTOR = 10_000
FEW = 3  # stands for such a repeat: recheck would take a state for each of its times
# A longer pattern is asked about with the first and last letter of each of its words, which costs recheck much less. A
# word outside of repeats that two loops can both take is taken by both letter by letter, so nothing slow gets lost.
LONG = 80
_CLASSES = {
    c.CATEGORY_DIGIT: r"\d",
    c.CATEGORY_NOT_DIGIT: r"\D",
    c.CATEGORY_SPACE: r"\s",
    c.CATEGORY_NOT_SPACE: r"\S",
    c.CATEGORY_WORD: r"\w",
    c.CATEGORY_NOT_WORD: r"\W",
}
_PLACES = {
    c.AT_BEGINNING: "^",
    c.AT_BEGINNING_LINE: "^",
    c.AT_BEGINNING_STRING: "^",
    c.AT_END: "$",
    c.AT_END_LINE: "$",
    c.AT_END_STRING: "$",
    c.AT_BOUNDARY: r"\b",
    c.AT_NON_BOUNDARY: r"\B",
}


def translate(pattern: str | bytes, flags: int, method: str) -> dict | None:
    """Return {source, flags} of a pattern used by this method of `re`; None if it can't take more than linear time."""
    if isinstance(pattern, bytes):
        pattern = pattern.decode("latin-1")
        flags &= ~re.ASCII
    tree = parser.parse(pattern, flags)
    repeats = list(_repeats(tree))
    bounded = prod(most for most in repeats if most <= MOST)
    if bounded <= FACTOR and all(most <= MOST for most in repeats):
        return None
    writer = _Writer(most=MOST if bounded <= FACTOR else 9, shorten=len(pattern) > LONG)
    source = writer.write(tree, tree.state.flags)
    if method in ("match", "fullmatch"):
        source = f"^(?:{source})" + ("$" if method == "fullmatch" else "")
    many = tree.state.flags & re.MULTILINE and method not in ("match", "fullmatch")
    return {"source": source, "flags": ("i" if tree.state.flags & re.IGNORECASE else "") + ("m" if many else "")}


def _repeats(tree):
    """Yield how often each repeat of the tree may go, those inside of others too."""
    for operation, value in tree:
        if operation in (c.MAX_REPEAT, c.MIN_REPEAT, c.POSSESSIVE_REPEAT):
            yield 1 if value[0] == value[1] else max(1, int(value[1]))
        for part in value if isinstance(value, (tuple, list)) else (value,):
            for inner in part if isinstance(part, list) else (part,):
                if isinstance(inner, parser.SubPattern):
                    yield from _repeats(inner)


class _Writer:
    def __init__(self, most: int, shorten: bool):
        self.most, self.shorten = most, shorten

    def write(self, tree, flags: int) -> str:
        nodes = _short(list(tree)) if self.shorten else tree
        return "".join(self._one(operation, value, flags) for operation, value in nodes)

    def _one(self, operation, value, flags) -> str:
        match operation:
            case c.LITERAL:
                return _letter(value)
            case c.NOT_LITERAL:
                return f"[^{_letter(value)}]"
            case c.ANY:
                return r"[\s\S]" if flags & re.DOTALL else "."
            case c.IN:
                return _set(value)
            case c.BRANCH:
                return "(?:" + "|".join(dict.fromkeys(self.write(branch, flags) for branch in value[1])) + ")"
            case c.MAX_REPEAT | c.MIN_REPEAT | c.POSSESSIVE_REPEAT:
                lazy = "?" if operation is c.MIN_REPEAT else ""
                inside = self if value[1] == 1 else _Writer(self.most, shorten=False)
                return f"(?:{inside.write(value[2], flags)}){self._times(*value[:2])}{lazy}"
            case c.SUBPATTERN:
                group, added, removed, inner = value
                return ("(" if group else "(?:") + self.write(inner, (flags | added) & ~removed) + ")"
            case c.ATOMIC_GROUP:
                return f"(?:{self.write(value, flags)})"
            case c.ASSERT | c.ASSERT_NOT:
                sign = "=" if operation is c.ASSERT else "!"
                return f"(?{'<' if value[0] < 0 else ''}{sign}{self.write(value[1], flags)})"
            case c.AT:
                return _PLACES[value]
            case c.GROUPREF:
                return f"\\{value}"
        raise ValueError(f"this check does not know {operation}")

    def _times(self, least: int, most: int) -> str:
        if most is c.MAXREPEAT or (most > self.most and most != least):
            return {0: "*", 1: "+"}.get(least, f"{{{min(least, FEW)},}}")
        return "?" if (least, most) == (0, 1) else f"{{{min(least, FEW)},{min(most, FEW)}}}"


def _short(nodes: list) -> list:
    """Leave the first and last letter of each word."""
    literal = [operation is c.LITERAL for operation, _ in nodes]
    ends = [*literal[1:], False]
    return [node for at, node in enumerate(nodes) if not (literal[at] and at and literal[at - 1] and ends[at])]


def _letter(code: int) -> str:
    if code > 0xFFFF:
        code = 0xE000 + code % 0x1000  # stands for it: JavaScript takes it for two
    return chr(code) if chr(code).isalnum() and code < 128 else f"\\u{code:04x}"


def _set(members) -> str:
    text = ""
    for operation, value in members:
        match operation:
            case c.NEGATE:
                text += "^"
            case c.LITERAL:
                text += _letter(value)
            case c.RANGE:
                first, last = value
                text += (
                    f"{_letter(first)}-{_letter(last)}"
                    if last <= 0xFFFF or first > 0xFFFF
                    else _letter(first) + "-\\uffff"
                )
            case c.CATEGORY:
                text += _CLASSES[value]
    return f"[{text}]"
