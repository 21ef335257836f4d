"""JSON as text for reading and editing."""

import json
import re

from dashboard import json_text

MAX_PRETTY = 4 * 1024**2  # characters
PLAIN = re.compile(r"[\w.@#/+-][\w .@#/+-]{0,200}")  # what needs no quotes beside other fields


def fields_line(arguments: dict) -> str:
    """Return arguments on one line, to read: `amount: 2443, charge: ch_9`; a value that is not plain is as in JSON."""
    return ", ".join(f"{_word(name)}: {_word(value)}" for name, value in arguments.items())


def _word(value) -> str:
    if isinstance(value, str) and PLAIN.fullmatch(value):
        return value
    return json_text.dumps(value, ensure_ascii=False)


def pretty(arguments, *, indent: int | None = 2) -> str:
    """Format as JSON for reading and editing: indented, or on one line if that would be too large or too deep."""
    pieces, size = [], 0
    try:
        marked, restored = json_text.with_marks(arguments)
        for piece in json.JSONEncoder(ensure_ascii=False, indent=indent).iterencode(marked):
            size += len(piece)
            if size > MAX_PRETTY:
                break
            pieces.append(piece)
        else:
            return restored("".join(pieces))
    except RecursionError:
        pass  # an indenting encoder needs more stack than parsing did
    return json_text.dumps(arguments, ensure_ascii=False)
