"""`python -m workspaces.lexing`: colour texts for the web process, which kills this one when a text takes too long.

Lexers are backtracking regular expressions; a few kilobytes can take one minutes. This module imports neither Django's
settings nor models.
"""

import sys

from pygments.lexers import get_lexer_for_filename
from pygments.token import STANDARD_TYPES
from pygments.util import ClassNotFound

from dashboard.visible_text import visible
from dashboard.workers.loop import answer_lines


def answer(request: dict) -> dict:
    """Return {lines} for {text, path}: the HTML of each line without its end; None means to show the text plain."""
    tokens = _tokens(request["text"], request["path"])
    return {"lines": tokens and _lines(tokens)}


def _tokens(text: str, path: str) -> list | None:
    """Return (CSS class, value) pairs whose values join to the text; None without a lexer, or if it alters the text."""
    try:
        lexer = get_lexer_for_filename(path)
    except ClassNotFound:
        return None
    # get_tokens() would normalise line ends; people must see the text unchanged.
    tokens = [(_css(kind), value) for _, kind, value in lexer.get_tokens_unprocessed(text)]
    return tokens if "".join(value for _, value in tokens) == text else None


def _lines(tokens) -> list[str]:
    lines = [""]
    for css, value in tokens:
        for number, part in enumerate(value.split("\n")):
            if number:
                lines.append("")
            if part:
                lines[-1] += f'<span class="{css}">{visible(part)}</span>' if css else visible(part)
    return lines


def _css(kind) -> str:
    while kind not in STANDARD_TYPES:
        kind = kind.parent
    return STANDARD_TYPES[kind]


if __name__ == "__main__":
    answer_lines(sys.stdin.buffer, sys.stdout.buffer, answer)
