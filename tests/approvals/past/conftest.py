"""A home with the transcripts of agents, as they write them."""

import json
import os
import sqlite3
import time
from datetime import UTC, datetime

import pytest

from approvals.past import report
from approvals.policy import default_policy


def moment(days_ago: float = 1) -> str:
    return datetime.fromtimestamp(time.time() - days_ago * 86400, UTC).isoformat().replace("+00:00", "Z")


class Home:
    """Writes what each agent leaves behind; the ids of calls are counted up."""

    def __init__(self, path):
        self.path, self.ids = path, 0
        self.programs = path / "bin"
        self.programs.mkdir(parents=True)

    @classmethod
    def of(cls, path):
        """A home that is there already; what is written belongs to its owner."""
        made = cls.__new__(cls)
        made.path, made.ids, made.programs = path, 0, path / "bin"
        return made

    def program(self, name: str, text: str = "#!/bin/sh\n"):
        (self.programs / name).write_text(text)
        (self.programs / name).chmod(0o755)
        return self.programs / name

    def claude_row(self, command, *, cwd="/srv/calc", days_ago=1.0, tool="Bash", call_id=None, **arguments) -> dict:
        self.ids += 1
        given = arguments or {"command": command}
        block = {"type": "tool_use", "id": call_id or f"toolu_{self.ids}", "name": tool, "input": given}
        message = {"role": "assistant", "content": [{"type": "text", "text": "Now."}, block]}
        return {"type": "assistant", "cwd": cwd, "timestamp": moment(days_ago), "message": message, "sessionId": "s"}

    def claude(self, *rows, name="-work-calc/one.jsonl"):
        return self.lines(f".claude/projects/{name}", rows)

    def codex(self, *items, cwd="/srv/calc", days_ago=1.0):
        head = {"timestamp": moment(days_ago), "type": "session_meta", "payload": {"id": "x", "cwd": cwd}}
        rows = [{"timestamp": moment(days_ago), "type": "response_item", "payload": item} for item in items]
        return self.lines(".codex/sessions/2026/11/20/rollout-2026-11-20T10-00-00-abc.jsonl", [head, *rows])

    def copilot(self, *calls, cwd="/srv/calc"):
        start = {"type": "session.start", "timestamp": moment(), "data": {"context": {"cwd": cwd}}}
        rows = [{"type": "tool.execution_start", "timestamp": moment(), "data": data} for data in calls]
        return self.lines(".copilot/session-state/abc/events.jsonl", [start, *rows])

    def opencode(self, *parts, cwd="/srv/calc"):
        path = self.path / ".local/share/opencode/opencode.db"
        path.parent.mkdir(parents=True)
        base = sqlite3.connect(path)
        base.execute("CREATE TABLE session (id TEXT, directory TEXT)")
        base.execute("CREATE TABLE part (id TEXT, session_id TEXT, time_created INTEGER, data TEXT)")
        base.execute("INSERT INTO session VALUES ('ses', ?)", (cwd,))
        at = int(time.time() * 1000) - 3600_000
        rows = [
            (f"prt{n}", "ses", at, part if isinstance(part, str) else json.dumps(part)) for n, part in enumerate(parts)
        ]
        base.executemany("INSERT INTO part VALUES (?, ?, ?, ?)", rows)
        base.commit()
        base.close()
        return path

    def lines(self, name, rows):
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"".join(row if isinstance(row, bytes) else json.dumps(row).encode() + b"\n" for row in rows))
        owner = self.path.stat()
        for each in (path, *path.relative_to(self.path).parents):
            os.chown(self.path / each, owner.st_uid, owner.st_gid)
        return path

    def report(self, text=None, **more) -> dict:
        question = {"homes": [str(self.path)], "search_path": str(self.programs)} | more
        return report.make(text or default_policy(), **question)


@pytest.fixture
def home(tmp_path):
    return Home(tmp_path / "home")


def texts(found: dict) -> list[str]:
    return sorted(call["text"] for group in found["groups"] for call in group["calls"])


def age(path, days: int):
    os.utime(path, (time.time() - days * 86400,) * 2)
