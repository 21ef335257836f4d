"""Values of rows that an agent wrote: whatever stands there, these return the type that is asked for."""

import json
from datetime import UTC, datetime

MAX_TOKENS = 10**9  # of one message; larger numbers are nonsense
MAX_PRICE = 10**6  # US dollars of one session


def row_of(line: bytes) -> dict | None:
    """Return the object of a line; None if it is none."""
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return row if isinstance(row, dict) else None


def text_of(row, name: str) -> str:
    value = row.get(name) if isinstance(row, dict) else None
    return value if isinstance(value, str) else ""


def dict_of(row, name: str) -> dict:
    value = row.get(name) if isinstance(row, dict) else None
    return value if isinstance(value, dict) else {}


def blocks_of(content) -> list[dict]:
    """Return the blocks of a message's content, which may also be a plain text."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []


def count_of(row, name: str) -> int:
    value = row.get(name) if isinstance(row, dict) else None
    is_count = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_TOKENS
    return value if is_count else 0


def price_of(row, name: str) -> float | None:
    value = row.get(name) if isinstance(row, dict) else None
    is_price = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < MAX_PRICE
    return float(value) if is_price else None


def moment_of(row) -> datetime | None:
    try:
        moment = datetime.fromisoformat(text_of(row, "timestamp"))
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def joined_text(content) -> str:
    """Return the texts of a content's blocks; other blocks are named by their type."""
    texts = (
        text_of(block, "text") if "text" in block else f"[{text_of(block, 'type')}]" for block in blocks_of(content)
    )
    return "\n".join(texts)


def with_path(arguments: dict, name: str) -> dict:
    """Return the arguments of a file tool with the path under the policy's name."""
    if name not in arguments:
        return arguments
    return {"file_path": arguments[name]} | {key: value for key, value in arguments.items() if key != name}
