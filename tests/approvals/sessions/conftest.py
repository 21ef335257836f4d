"""Sessions as hooks tell them, and the transcripts that Claude Code and Codex keep of them."""

import json
from itertools import count

import pytest

from approvals.models import AgentSession, Follow, Message
from approvals.sessions import following, places

from ..conftest import (  # noqa: F401 - fixtures
    LIST,
    PUSH,
    ask,
    before,
    caller,
    consume,
    decide,
    hook,
    person,
    workspace,
)

CALL = {"command": "pwd"}


def told(name, session="s1", **more):
    """An event of Claude Code, as its hook posts it."""
    return {"session_id": session, "hook_event_name": name, "cwd": "/home/mia/repo", **more}


def said(session=None) -> list[tuple]:
    """(role, kind, text) of the stored messages, in the order of the conversation."""
    rows = Message.objects.order_by("at", "seq")
    rows = rows.filter(session__native_id=session) if session else rows
    return list(rows.values_list("role", "kind", "text"))


class ClaudeFile:
    """The transcript of a session, written as Claude Code does."""

    def __init__(self, path):
        self.path, self.ids = path, count(1)
        path.parent.mkdir(parents=True, exist_ok=True)

    def row(self, kind, content, **more) -> dict:
        number = next(self.ids)
        message = {"role": kind, "content": content} | more.pop("message", {})
        at = f"2026-11-20T10:00:{number:02}.000Z"
        return {"type": kind, "uuid": f"u{number}", "timestamp": at, "message": message} | more

    def write(self, *rows, end="\n"):
        with open(self.path, "a") as file:
            file.write("\n".join(row if isinstance(row, str) else json.dumps(row) for row in rows) + end)


@pytest.fixture
def home(tmp_path):
    return tmp_path / "home"


@pytest.fixture
def claude_file(home):
    return ClaudeFile(home / ".claude/projects/-home-mia-repo/s1.jsonl")


@pytest.fixture
def followed(hook, agent_token):  # noqa: F811
    """`followed(path)`: the hook told of the transcript; returns how to import what it gained since."""

    def begin(path, session="s1", dialect="claude-code"):
        hook(agent_token, told("SessionStart", session, transcript_path=str(path), source="startup"))
        found = AgentSession.objects.get(native_id=session)
        if dialect != found.dialect:
            AgentSession.objects.filter(pk=found.pk).update(dialect=dialect)
            found.refresh_from_db()
            assert places.can_be(found, str(path))
            Follow.objects.create(session=found, path=str(path))
        return lambda: following.read_on(Follow.objects.get(session=found, path=str(path)))

    return begin
