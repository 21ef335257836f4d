"""JSON as text for reading and editing."""

import json

from dashboard import json_text

MAX_PRETTY = 4 * 1024**2  # characters


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
