"""OpenCode: `~/.local/share/opencode/opencode.db`, a SQLite file with the tables session and part."""

import json
import sqlite3
import time
from urllib.parse import quote

from approvals.past.calls import PastCall, dict_of, text_of

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
    """Yield (call, None) or (None, 1) for a row that makes no sense. The file is neither locked nor written to.

    `until` is on the monotonic clock. Raise sqlite3.Error if the file is no such database or time is up.
    """
    base = sqlite3.connect(f"file:{quote(path)}?mode=ro&immutable=1", uri=True)
    try:
        base.set_progress_handler(lambda: time.monotonic() > until, STEPS_BETWEEN_LOOKS)
        for part, at, data, folder in base.execute(QUERY, (int(since * 1000), longest, most)):
            yield _call(part, at, data, folder)
    finally:
        base.close()


def _call(part, at, data, folder):
    try:
        row = json.loads(data)
    except (ValueError, TypeError, RecursionError):
        return None, 1
    if not isinstance(row, dict):
        return None, 1
    tool = text_of(row, "tool")
    if row.get("type") != "tool" or not tool:
        return None, None
    arguments = dict_of(dict_of(row, "state"), "input")
    if "filePath" in arguments:
        arguments = {"file_path": arguments["filePath"]} | {k: v for k, v in arguments.items() if k != "filePath"}
    if tool == "grep":  # which prints lines
        arguments = arguments | {"output_mode": "content"}
    folder = folder if isinstance(folder, str) else ""
    when = at / 1000 if isinstance(at, int | float) else 0.0
    call_id = text_of(row, "callID") or str(part)
    return PastCall(NAME, TOOLS.get(tool, tool), arguments, folder, folder, when, call_id), None
