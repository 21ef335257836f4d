"""OpenCode: `~/.local/share/opencode/opencode.db`, a SQLite file with the tables session and part."""

import sqlite3
import time
from datetime import UTC, datetime
from urllib.parse import quote

from approvals.agents.lines import Line
from approvals.agents.transcript_values import dict_of, row_of, text_of, with_path

NAME, LABEL = "opencode", "OpenCode"
FOLDER, FILE = ".local/share/opencode", "opencode.db"
TOOLS = {"bash": "Bash", "read": "Read", "edit": "Edit", "write": "Write", "grep": "Grep", "glob": "Glob"}
TOOLS |= {"list": "LS", "webfetch": "WebFetch", "todowrite": "TodoWrite", "todoread": "TodoRead", "task": "Task"}
STEPS_BETWEEN_LOOKS = 100_000  # SQLite's own steps between two looks at the clock
QUERY = """
    SELECT part.id, part.time_created, part.data, session.directory
    FROM part JOIN session ON session.id = part.session_id
    WHERE part.time_created >= ? AND length(part.data) <= ? ORDER BY part.time_created DESC LIMIT ?
"""


def calls(path: str, *, since: float, until: float, most: int, longest: int):
    """Yield (call or None, its folder), or (None, None) for a row that makes no sense. Neither lock nor write the file.

    `until` is on the monotonic clock. Raise sqlite3.Error if the file is no such database or time is up.
    """
    base = sqlite3.connect(f"file:{quote(path)}?mode=ro&immutable=1", uri=True)
    try:
        base.set_progress_handler(lambda: time.monotonic() > until, STEPS_BETWEEN_LOOKS)
        for part, at, data, folder in base.execute(QUERY, (int(since * 1000), longest, most)):
            yield _call(part, at, data, folder)
    finally:
        base.close()


def asked(line: Line) -> tuple[str, dict, str]:
    arguments = with_path(line.content, "filePath")
    if line.tool == "grep":  # which prints lines
        arguments = arguments | {"output_mode": "content"}
    return TOOLS.get(line.tool, line.tool), arguments, ""


def _call(part, at, data, folder) -> tuple[Line | None, str | None]:
    row = row_of(data) if isinstance(data, str | bytes) else None
    if row is None:
        return None, None
    folder = folder if isinstance(folder, str) else ""
    tool = text_of(row, "tool")
    if row.get("type") != "tool" or not tool:
        return None, folder
    about = {"at": _moment(at), "tool": tool, "call_id": text_of(row, "callID") or str(part)}
    return Line("assistant", "call", dict_of(dict_of(row, "state"), "input"), **about), folder


def _moment(milliseconds) -> datetime | None:
    try:
        return datetime.fromtimestamp(milliseconds / 1000, UTC)
    except (TypeError, ValueError, OverflowError, OSError):
        return None
