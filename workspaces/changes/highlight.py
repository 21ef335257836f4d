"""Syntax colours for texts written by agents: escaped, hidden characters shown as marks, nothing left out.

Lexers run in worker processes, which are killed when they take too long; the text is then shown plain.
"""

import hashlib
import logging
import os
import time

from django.core.cache import cache
from django.utils.safestring import SafeString, mark_safe

from dashboard.text.visible_text import as_it_reads, visible
from dashboard.workers.pool import Busy, Late, Worker, Workers

logger = logging.getLogger("handrail.web")

MAX_CHARS = 128 * 1024  # longer texts are shown plain: a lexer reads about 200 KB per second
MAX_LINE = 2000  # characters; texts with a longer line, such as minified ones, are shown plain
COLOUR_SECONDS = 2.0  # for all texts of one page
KEPT_SECONDS = 600
MAX_PROCESSES = min(2, os.cpu_count() or 1)

painters = Workers(lambda: Worker("workspaces.changes.lexing"), MAX_PROCESSES, queue_seconds=COLOUR_SECONDS)


def deadline() -> float:
    """Return the time.monotonic() after which a page that starts now shows its texts plain; for `coloured_lines`."""
    return time.monotonic() + COLOUR_SECONDS


def coloured_lines(text: str, path: str, *, until: float | None = None) -> list[SafeString]:
    """Return `text` as HTML, one item per line, without line ends; the name in `path` determines the language.

    `until` is the page's `deadline()` when it shows more than one text.
    """
    if not text:
        return []
    if _is_too_long(text):
        return _plain(text)
    key = _key(path, text)
    lines = cache.get(key)
    if lines is None:
        lines = _coloured(text, path, key, until or deadline())
    return lines


def coloured_sides(
    old: str, new: str, pairs: list[tuple[int, int]], path: str, *, until: float | None = None
) -> tuple[list[SafeString], list[SafeString]]:
    """Return both texts as `coloured_lines` does, with <del> and <ins> where the two lines of a pair differ.

    `pairs` are (line of `old`, line of `new`), counted from 0.
    """
    if not pairs or _is_too_long(old) or _is_too_long(new):
        return tuple(coloured_lines(text, path, until=until) for text in (old, new))
    key = _key(path, old, new, repr(pairs))
    if (lines := cache.get(key)) is not None:
        return lines
    left = (until or deadline()) - time.monotonic()
    try:
        found = painters.ask({"old": old, "new": new, "pairs": pairs, "path": path}, left) if left > 0 else None
    except Late as late:
        logger.warning("%r is shown without colours: %s", path, late)
        found = None
    if found is None:
        return _plain(old), _plain(new)
    lines = tuple(_as_html(found[side], text) for side, text in (("old", old), ("new", new)))
    cache.set(key, lines, KEPT_SECONDS)
    return lines


def _is_too_long(text: str) -> bool:
    return len(text) > MAX_CHARS or max(map(len, text.split("\n"))) > MAX_LINE


def _key(path: str, *texts: str) -> str:
    parts = (os.fsencode(path), *(text.encode("utf-8", "surrogateescape") for text in texts))
    return f"colours:{hashlib.sha256(b''.join(b'%d:%b' % (len(part), part) for part in parts)).hexdigest()}"


def _as_html(lines: list[str], text: str) -> list[SafeString]:
    read = map(as_it_reads, text.split("\n"))
    lines = [
        mark_safe(line) + more for line, more in zip(lines, read, strict=True)
    ]  # workspaces.changes.lexing has escaped them
    return lines[:-1] if text.endswith("\n") or not text else lines


def _coloured(text: str, path: str, key: str, until: float) -> list[SafeString]:
    left = until - time.monotonic()
    if left <= 0:
        return _plain(text)  # not cached: it may be coloured when the page is opened again
    try:
        found = painters.ask({"text": text, "path": path}, left)["lines"]
    except Busy:
        return _plain(text)
    except Late as late:
        logger.warning("%r is shown without colours: %s", path, late)
        if left < COLOUR_SECONDS / 2:
            return _plain(text)  # not cached: other texts of the page used most of the time
        found = None
    lines = _as_html(found, text) if found else _plain(text)
    cache.set(key, lines, KEPT_SECONDS)
    return lines


def _plain(text: str) -> list[SafeString]:
    return [visible(line) + as_it_reads(line) for line in text.removesuffix("\n").split("\n")]
