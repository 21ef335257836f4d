"""Printing for the commands. Hidden characters in texts of agents are spelt out."""

import sys
from collections.abc import Iterable

from handrail_client import json_text


def plain(text) -> str:
    r"""Return the text in one line, with control, bidi and other hidden characters as \x1b or \u202e."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in str(text))


def as_json(value):
    print(json_text.dumps(value, indent=2, ensure_ascii=not (sys.stdout.encoding or "").lower().startswith("utf")))


def rows(found: Iterable[dict], columns: list[str], *, as_is: bool):
    """Print one line for each, its columns two spaces apart, or JSON lines."""
    if as_is:
        for row in found:
            print(json_text.dumps(row))
        return
    table = [[plain("" if row.get(name) is None else row[name]) for name in columns] for row in found]
    widths = [max((len(line[n]) for line in table), default=0) for n in range(len(columns))]
    for line in table:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())


def copy_out(pieces: Iterable[bytes]):
    """Write bytes to standard output as they come."""
    for piece in pieces:
        sys.stdout.buffer.write(piece)
        sys.stdout.buffer.flush()
