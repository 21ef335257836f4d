"""`python -m workspaces.changes.lexing`: colour texts for web, which kills this process when a text takes too long.

Lexers are backtracking regular expressions; a few kilobytes can take one minutes. This module imports neither Django's
settings nor models.
"""

import sys

from pygments.lexers import get_lexer_for_filename
from pygments.token import STANDARD_TYPES
from pygments.util import ClassNotFound

from dashboard.text.visible_text import visible
from dashboard.workers.loop import answer_lines
from workspaces.changes import word_marks


def answer(request: dict) -> dict:
    """Return {lines} for {text, path}: the HTML of each line without its end; None means to show the text plain.

    For {old, new, pairs, path} return {old, new}, the lines of both with marks where the lines of a pair differ.
    """
    if "pairs" in request:
        return _sides(**request)
    tokens = _tokens(request["text"], request["path"])
    return {"lines": tokens and _lines(tokens)}


def _sides(old: str, new: str, pairs: list, path: str) -> dict:
    before, after = old.split("\n"), new.split("\n")
    gone, come = {}, {}
    for left, right in pairs:
        gone[left], come[right] = word_marks.spans(before[left], after[right])
    return {
        "old": _lines(_tokens(old, path) or [("", old)], gone, "del"),
        "new": _lines(_tokens(new, path) or [("", new)], come, "ins"),
    }


def _tokens(text: str, path: str) -> list | None:
    """Return (CSS class, value) pairs whose values join to the text; None without a lexer, or if it alters the text."""
    try:
        lexer = get_lexer_for_filename(path)
    except ClassNotFound:
        return None
    # get_tokens() would normalise line ends; people must see the text unchanged.
    tokens = [(_css(kind), value) for _, kind, value in lexer.get_tokens_unprocessed(text)]
    return tokens if "".join(value for _, value in tokens) == text else None


def _lines(tokens, marks: dict | None = None, tag: str = "") -> list[str]:
    """Return the HTML of each line; `marks` are {line: ranges of characters} that go into elements of `tag`."""
    lines, at = [""], 0
    for css, value in tokens:
        for number, part in enumerate(value.split("\n")):
            if number:
                lines.append("")
                at = 0
            spans = marks.get(len(lines) - 1) if marks else None
            for piece, is_marked in _pieces(part, at, spans) if spans else [(part, False)]:
                if piece:
                    html = f'<span class="{css}">{visible(piece)}</span>' if css else visible(piece)
                    lines[-1] += f"<{tag}>{html}</{tag}>" if is_marked else html
            at += len(part)
    return lines


def _pieces(part: str, at: int, spans: list) -> list[tuple[str, bool]]:
    """Cut a part of a line, which begins at character `at` of it, where ranges begin or end: (text, is in a range)."""
    found, done = [], 0
    for begin, end in spans:
        begin, end = max(begin - at, done), min(end - at, len(part))
        if begin < end:
            found += [(part[done:begin], False), (part[begin:end], True)]
            done = end
    return [*found, (part[done:], False)]


def _css(kind) -> str:
    while kind not in STANDARD_TYPES:
        kind = kind.parent
    return STANDARD_TYPES[kind]


if __name__ == "__main__":
    answer_lines(sys.stdin.buffer, sys.stdout.buffer, answer)
