"""Tell GraphQL that only reads from GraphQL that may write, by the operations in its text.

Servers agree on how a document is cut into tokens, so that is all that is done here: what stands at the top of the
document begins an operation or a fragment, and nothing else is let through. What cannot be cut so is no reading.
"""

import re

# pattern: matched at a place, in at most 64 KB; a number that does not fit ends the reading
TOKEN = re.compile(
    r'''
    (?P<skipped>[ \t\n\r,\ufeff]++|\#[^\n\r]*+)
    |(?P<text>"""(?:[^"\\]|\\"""|\\(?!""")|"(?!""))*"""
        |""(?!")|"(?:[^"\\\n\r]|\\["\\/bfnrt]|\\u[0-9A-Fa-f]{4}|\\u\{[0-9A-Fa-f]{1,6}\})+")
    |(?P<name>[A-Za-z_][A-Za-z0-9_]*+)
    |(?P<number>-?[0-9]++(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?(?![A-Za-z0-9_.]))
    |(?P<mark>\.\.\.|[!$&():=@\[\]{|}])
    ''',
    re.VERBOSE,
)
OPERATIONS = ("query", "mutation", "subscription")
CLOSING = {"(": ")", "[": "]", "{": "}"}
CONTROL = re.compile(r"[^\t\n\r -\x7e\x80-\U0010ffff]")


class Unreadable(ValueError):
    """The text is no document that is understood here."""


def operations(text: str) -> list[tuple[str, tuple[str, ...]]]:
    """Return (kind, the fields that it asks for first) of each operation in a document. Raise Unreadable."""
    found, tokens = [], _tokens(text)
    for group, token in tokens:
        if token == "{":
            kind = "query"
            fields = _selection(tokens)
        elif group == "name" and token in (*OPERATIONS, "fragment"):
            kind = token
            _to_selection(tokens)
            fields = _selection(tokens)
        else:
            raise Unreadable
        if kind != "fragment":
            found.append((kind, fields))
    if not found:
        raise Unreadable
    return found


def _tokens(text: str):
    """Yield (group, token) of a document."""
    if CONTROL.search(text):
        raise Unreadable
    at = 0
    while at < len(text):
        match = TOKEN.match(text, at)
        if match is None:
            raise Unreadable
        at = match.end()
        if match.lastgroup != "skipped":
            yield match.lastgroup, match[0]


def _to_selection(tokens):
    """Read up to the brace that opens what an operation or fragment selects."""
    waiting: list[str] = []
    for group, token in tokens:
        if not waiting and token == "{":
            return
        _count(waiting, group, token)
    raise Unreadable


def _selection(tokens) -> tuple[str, ...]:
    """Read to the brace that closes a selection, and return the names of its own fields and fragments."""
    waiting, names, spread = ["}"], [], ""
    for group, token in tokens:
        if waiting == ["}"]:
            if group == "name":
                names.append(spread + token)
            elif token == ":" and names:
                names.pop()  # an alias
            spread = "..." if token == "..." else ""
        _count(waiting, group, token)
        if not waiting:
            return tuple(names)
    raise Unreadable


def _count(waiting: list[str], group: str, token: str):
    """Keep the brackets that wait to be closed."""
    if group != "mark":
        return
    if token in CLOSING:
        waiting.append(CLOSING[token])
    elif token in CLOSING.values() and (not waiting or waiting.pop() != token):
        raise Unreadable
