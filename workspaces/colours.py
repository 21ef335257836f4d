"""Syntax colours for texts that agents wrote: escaped, hidden characters as marks, nothing left out."""

import hashlib
import os

from django.core.cache import cache
from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe
from pygments.lexers import get_lexer_for_filename
from pygments.lexers.special import TextLexer
from pygments.token import STANDARD_TYPES, Token
from pygments.util import ClassNotFound

from dashboard.visible import visible

COLOURED_BYTES = 512 * 1024  # longer texts are shown plain
LONGEST_LINE = 2000  # a lexer's regular expressions may take very long on one endless line


def coloured_lines(text: str, path: str) -> list[SafeString]:
    """`text` as HTML, one item for each line, without the line ends; `path` says which language it is."""
    if not text:
        return []
    digest = hashlib.sha256(os.fsencode(path) + b"\0" + text.encode("utf-8", "surrogateescape")).hexdigest()
    key = f"colours:{digest}"
    lines = cache.get(key)
    if lines is None:
        lines = _coloured(text, path)
        cache.set(key, lines, 600)
    return lines


def _coloured(text: str, path: str) -> list[SafeString]:
    lines, current = [], []
    for kind, value in _tokens(text, path):
        css = _css(kind)
        for number, part in enumerate(value.split("\n")):
            if number:
                lines.append(mark_safe("".join(current)))
                current = []
            if part:
                current.append(format_html('<span class="{}">{}</span>', css, visible(part)) if css else visible(part))
    if current or not text.endswith("\n"):
        lines.append(mark_safe("".join(current)))
    return lines


def _tokens(text: str, path: str):
    """(token type, value) whose values are the text, to the byte."""
    if len(text) > COLOURED_BYTES or max(map(len, text.split("\n"))) > LONGEST_LINE:
        return [(Token.Text, text)]
    try:
        lexer = get_lexer_for_filename(path)
    except ClassNotFound:
        lexer = TextLexer()
    # get_tokens() would change line ends; what a person sees is what is there.
    tokens = [(kind, value) for _, kind, value in lexer.get_tokens_unprocessed(text)]
    return tokens if "".join(value for _, value in tokens) == text else [(Token.Text, text)]


def _css(kind) -> str:
    while kind not in STANDARD_TYPES:
        kind = kind.parent
    return STANDARD_TYPES[kind]
