"""Syntax colours for texts written by agents: escaped, hidden characters shown as marks, nothing left out.

Lexers run in worker processes, which are killed when they take too long; the text is then shown plain.
"""

import hashlib
import logging
import os
import time

from django.core.cache import cache
from django.utils.safestring import SafeString, mark_safe

from dashboard.visible_text import visible
from dashboard.workers.pool import Busy, Late, Worker, Workers

logger = logging.getLogger("handrail.web")

MAX_CHARS = 128 * 1024  # longer texts are shown plain: a lexer reads about 200 KB per second
MAX_LINE = 2000  # characters; texts with a longer line, such as minified ones, are shown plain
COLOUR_SECONDS = 2.0  # for all texts of one page
KEPT_SECONDS = 600
MAX_PROCESSES = min(2, os.cpu_count() or 1)

painters = Workers(lambda: Worker("workspaces.lexing"), MAX_PROCESSES, queue_seconds=COLOUR_SECONDS)


def deadline() -> float:
    """Return the time.monotonic() after which a page that starts now shows its texts plain; for `coloured_lines`."""
    return time.monotonic() + COLOUR_SECONDS


def coloured_lines(text: str, path: str, *, until: float | None = None) -> list[SafeString]:
    """Return `text` as HTML, one item per line, without line ends; the name in `path` determines the language.

    `until` is the page's `deadline()` when it shows more than one text.
    """
    if not text:
        return []
    if len(text) > MAX_CHARS or max(map(len, text.split("\n"))) > MAX_LINE:
        return _plain(text)
    digest = hashlib.sha256(os.fsencode(path) + b"\0" + text.encode("utf-8", "surrogateescape")).hexdigest()
    key = f"colours:{digest}"
    lines = cache.get(key)
    if lines is None:
        lines = _coloured(text, path, key, until or deadline())
    return lines


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
    lines = [mark_safe(line) for line in found] if found else _plain(text)  # workspaces.lexing has escaped them
    lines = lines[:-1] if found and text.endswith("\n") else lines
    cache.set(key, lines, KEPT_SECONDS)
    return lines


def _plain(text: str) -> list[SafeString]:
    return [visible(line) for line in text.removesuffix("\n").split("\n")]
